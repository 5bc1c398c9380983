"""How the demo looks: headings, and commands that are shown, run, and answered as on a terminal of some width."""

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
TERMINAL = sys.stdout.isatty()
WIDTH = max(80, min(120, shutil.get_terminal_size((100, 24)).columns))
TRACELAB = [sys.executable, "-m", "tracelab"]


def bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if TERMINAL and not os.environ.get("NO_COLOR") else text


def heading(text: str, note: str) -> None:
    """Rule off a section; the note says whose data it is about."""
    end = f" [{note}]" if note else ""
    rule = "─" * max(3, WIDTH - len(text) - len(end) - 4)
    print(f"\n{bold(f'── {text} {rule}{end}')}\n", flush=True)


def say(text: str) -> None:
    """Print a sentence of ours beneath an answer."""
    print(textwrap.fill(text, WIDTH, initial_indent="→ ", subsequent_indent="  ", break_on_hyphens=False), flush=True)


def shown(arguments: list[str], *, stdin: Path | None = None, spaced: bool = True) -> None:
    """Print the command, run it, and let it print: to this terminal, else to one of our own that we copy from."""
    typed = shlex.join(["tracelab", *arguments])
    print(f"$ {typed}" + (f" < {stdin}" if stdin else ""), flush=True)
    with (stdin or Path(os.devnull)).open("rb") as source:
        status = (_run if TERMINAL else _run_on_a_terminal)([*TRACELAB, *arguments], source)
    if status:
        sys.exit(f"demo: `{typed}` failed with exit status {status}")
    if spaced:
        print(flush=True)


def _run(command: list[str], source: BinaryIO) -> int:
    return subprocess.run(command, stdin=source, check=False).returncode


def _run_on_a_terminal(command: list[str], source: BinaryIO) -> int:
    """Run with a terminal for stdout, so that answers are tables as people see them, also when the demo is piped."""
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
    except OSError:  # Linux's way to say that the other side is closed
        return b""
