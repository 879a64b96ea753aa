"""``income-client completion``: prints the script that completes the command in a shell."""

from typing import Literal

from .app import command_line


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print the script that completes the command in a shell.

    Args:
        shell: which one.

    Returns:
        The exit status.
    """
    print(command_line().generate_completion(shell=shell))
    return 0
