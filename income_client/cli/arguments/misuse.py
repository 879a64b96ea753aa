"""What is wrong with a command line whatever else is so; knows no option by name."""

from income_client import ConfigurationError


class MisuseError(ConfigurationError):
    """Arguments that cannot be meant, which shows in the command line alone."""
