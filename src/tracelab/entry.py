"""Start the command line with Ctrl-C handled from its first import on."""

from tracelab.interrupts import handle_early_interrupts


def run() -> None:
    """Run the command line."""
    handle_early_interrupts()
    from tracelab.cli import run as run_command_line

    run_command_line()
