"""``income-client completion``: prints the script that completes the command in a shell."""

from typing import Literal

from .exit_status import ExitStatus
from .output import write_text


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print a completion script for a shell.

    Save it for bash as ~/.local/share/bash-completion/completions/income-client,
    for zsh as _income-client in a folder of $fpath, and for fish as
    ~/.config/fish/completions/income-client.fish.

    Example: income-client completion bash

    Args:
        shell: Name of the shell.
    """
    from .app import command_line

    write_text(command_line().generate_completion(shell=shell))
    return ExitStatus.DONE
