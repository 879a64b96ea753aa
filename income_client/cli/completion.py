"""``income-client completion``: prints the script that completes the command in a shell."""

from typing import Literal

from .app import command_line
from .exit_status import ExitStatus
from .output import write_text


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print the script that completes the command in a shell.

    Where such scripts go: for bash the file income-client in the folder
    ~/.local/share/bash-completion/completions, for zsh the file _income-client in a
    folder of $fpath, for fish ~/.config/fish/completions/income-client.fish.

    Example: income-client completion bash

    Args:
        shell: which one.

    Returns:
        The exit status.
    """
    write_text(command_line().generate_completion(shell=shell))
    return ExitStatus.DONE
