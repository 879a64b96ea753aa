"""What no second try would mend: a command line or settings; knows no option by name."""

from income_client import ConfigurationError


class MisuseError(ConfigurationError):
    """Arguments or settings that cannot be meant, wherever they come from."""
