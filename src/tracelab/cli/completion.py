"""`tracelab completion`: print the script with which a shell completes commands, queries and options."""

import click
from click.shell_completion import get_completion_class

from tracelab.cli import main

SHELLS = ("bash", "zsh", "fish", "powershell")

_EPILOG = """\b
Examples:
  tracelab completion bash >> ~/.bashrc
  tracelab completion zsh >> ~/.zshrc
  tracelab completion fish > ~/.config/fish/completions/tracelab.fish
"""


@click.command(epilog=_EPILOG)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the completion script of SHELL; it completes commands, query names and options."""
    complete = get_completion_class(shell)
    if complete is None:
        raise click.UsageError(f"this version of click has no completion for {shell}")
    click.echo(complete(main, {}, "tracelab", "_TRACELAB_COMPLETE").source())
