"""What became of files, as counts; knows none of them."""

from attrs import define
from rich.filesize import decimal

from income_client.cli.output import counted


@define
class Tally:
    """What became of the files so far."""

    new: int = 0
    """Files that came."""
    there: int = 0
    """Files that were there already."""
    failed: int = 0
    """Files that could not be had."""
    unread: int = 0
    """Applications whose documents could not be read."""
    size: int = 0
    """Bytes of the files that came."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing failed."""
        return not self.failed and not self.unread

    def told(self, seconds: float) -> str:
        """Return it in a line."""
        files = self.new + self.there + self.failed
        parts = [counted(files, "file"), f"{self.new:,} new"]
        parts += [f"{self.there:,} there already", f"{self.failed:,} failed"]
        if self.unread:
            parts.append(f"{counted(self.unread, 'application')} not read")
        return f"{', '.join(parts)}, {decimal(self.size)} in {seconds:,.1f} s"
