"""Run the console examples of README.md and the pages, and replace their output."""

import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

WIDTH = 100
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_CUT = "…\n"


def update_examples(text: str, store: Path) -> str:
    """Return the page with the output of each `tracelab` command as the command prints it now.

    Output that ends in a line `…` keeps its number of lines. `tracelab ingest` is not run: the store already has its
    rows.
    """

    def update_command(match: re.Match[str]) -> str:
        command, output = match.groups()
        if command.startswith("tracelab ingest "):
            return match[0]
        lines = run_in_terminal(command, store).splitlines(keepends=True)
        if output.endswith(_CUT):
            lines = [*lines[: output.count("\n") - 1], _CUT]
        return f"$ {command}\n{''.join(lines)}"

    return _BLOCK.sub(lambda block: f"```console\n{_COMMAND.sub(update_command, block[1])}```", text)


def run_in_terminal(command: str, store: Path) -> str:
    """Return what a `tracelab` command prints in a terminal of the pages' width."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    environment = os.environ | {"NO_COLOR": "1", "COLUMNS": str(WIDTH), "TRACELAB_STORE": str(store)}
    words = [sys.executable, "-m", *shlex.split(command)]
    output = b""
    with subprocess.Popen(words, stdout=theirs, stdin=subprocess.DEVNULL, env=environment) as process:
        os.close(theirs)
        try:
            while chunk := os.read(ours, 65536):
                output += chunk
        except OSError:  # on Linux, the other side is closed
            pass
    os.close(ours)
    if process.returncode != 0:
        raise SystemExit(f"docs: `{command}` exits with {process.returncode}")
    return output.decode().replace("\r\n", "\n").rstrip("\n") + "\n"
