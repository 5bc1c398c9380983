"""Print headings and notes, and run commands with their output, as in a terminal."""

import fcntl
import os
import pty
import shlex
import shutil
import struct
import subprocess
import sys
import termios
import textwrap
from pathlib import Path
from typing import BinaryIO

ROOT = Path(__file__).resolve().parents[1]
IS_TERMINAL = sys.stdout.isatty()
WIDTH = max(80, min(120, shutil.get_terminal_size((100, 24)).columns))
TRACELAB = [sys.executable, "-m", "tracelab"]


def bold(text: str) -> str:
    """Return the text in bold, in a terminal that supports it."""
    return f"\x1b[1m{text}\x1b[0m" if IS_TERMINAL and not os.environ.get("NO_COLOR") else text


def print_heading(text: str, origin: str = "") -> None:
    """Print the heading of a section, with the origin of its data."""
    end = f" [{origin}]" if origin else ""
    rule = "─" * max(3, WIDTH - len(text) - len(end) - 4)
    print(f"\n{bold(f'── {text} {rule}{end}')}\n", flush=True)


def print_note(text: str) -> None:
    """Print a sentence of the demo, wrapped and indented, to distinguish it from output of commands."""
    print(textwrap.fill(text, WIDTH, initial_indent="→ ", subsequent_indent="  ", break_on_hyphens=False), flush=True)


def run_tracelab(arguments: list[str], *, stdin: Path | None = None) -> None:
    """Print a tracelab command and run it; its output goes to this terminal, or is copied from a pseudo-terminal."""
    command = shlex.join(["tracelab", *arguments])
    print(f"$ {command}" + (f" < {stdin}" if stdin else ""), flush=True)
    with (stdin or Path(os.devnull)).open("rb") as source:
        status = (_run if IS_TERMINAL else _run_in_pseudo_terminal)([*TRACELAB, *arguments], source)
    if status:
        sys.exit(f"demo: `{command}` failed with exit status {status}")
    print(flush=True)


def _run(command: list[str], source: BinaryIO) -> int:
    return subprocess.run(command, stdin=source, check=False).returncode


def _run_in_pseudo_terminal(command: list[str], source: BinaryIO) -> int:
    """Run with a terminal as stdout, so that answers are formatted for people even if the demo is piped."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    environment = os.environ | {"NO_COLOR": "1", "COLUMNS": str(WIDTH)}
    with subprocess.Popen(command, stdin=source, stdout=theirs, env=environment) as process:
        os.close(theirs)
        while chunk := _read(ours):
            sys.stdout.buffer.write(chunk.replace(b"\r\n", b"\n"))
            sys.stdout.buffer.flush()
    os.close(ours)
    return process.returncode


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # on Linux, the other side is closed
        return b""
