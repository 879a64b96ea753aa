"""``income-client application`` on an application that a test has made up.

`draw` and `page` are what it draws of any; `Look` runs the command itself.
"""

import re
from pathlib import Path
from typing import Final

from income_client import Application, ApplicationDocuments, ApplicationRecord, from_json
from income_client.cli.application import html
from income_client.cli.application.terminal import Drawing
from income_client.cli.application.view import RecordView, view_of
from income_client.cli.output import drawn
from income_client.emulator import Fault

from .application_payloads import Payloads
from .cli import Cli
from .streams import Terminal

SHOW_ALL: Final = "--show-personal-data"
_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")


def unstyled(text: str) -> str:
    """Return what a terminal shows without colours."""
    return _STYLE.sub("", text)


def draw(payloads: Payloads, *arguments: str, width: int = 100) -> str:
    """Return what is drawn of an application in this width, without its styles."""
    return unstyled("\n".join(drawn(Drawing(_view(payloads, arguments)), width)))


def page(payloads: Payloads, *arguments: str) -> str:
    """Return the page of an application."""
    return html.page(_view(payloads, arguments)).decode()


def _view(payloads: Payloads, arguments: tuple[str, ...]) -> RecordView:
    application, documents = payloads.bodies
    record = ApplicationRecord(
        application=from_json(Application, application),
        documents=from_json(ApplicationDocuments, documents),
    )
    return view_of(record, show_personal_data=SHOW_ALL in arguments)


class Look:
    """Looks at applications.

    Args:
        shell: the command on a service.
    """

    def __init__(self, shell: Cli) -> None:
        self._shell = shell

    def __call__(
        self, payloads: Payloads, *arguments: str, width: int | None = None, **env: str
    ) -> str:
        """Return what is printed: on a terminal of this width, or in a pipe."""
        self._serve(payloads)
        terminal = None if width is None else Terminal(columns=width)
        ran = self._shell("application", "app-1", *arguments, terminal=terminal, env=env)
        assert ran.status == 0, ran
        return ran.stdout + ran.screen.replace("\r\n", "\n")

    def page(self, payloads: Payloads, *arguments: str) -> str:
        """Return the page that is written."""
        self._serve(payloads)
        path = Path(self._shell.folder, "page.html")
        ran = self._shell("application", "app-1", "--html", str(path), "--overwrite", *arguments)
        assert ran.status == 0, ran
        return path.read_text("utf-8")

    def _serve(self, payloads: Payloads) -> None:
        application, documents = payloads.bodies
        self._shell.service.faults.clear()
        self._shell.service.faults.add(
            Fault("body", path="*/app-1", body=application, times=None),
            Fault("body", path="*/app-1/documents", body=documents, times=None),
        )
