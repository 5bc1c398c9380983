"""Find an installed nsys or ncu, with its version and supported options."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracelab.errors import TracelabError

TIMEOUT_S = 120
"""Time limit of a tool's listing: ncu takes seconds to list its metrics, and longer on a cold file system."""

_INSTALL_PATHS = {
    "nsys": ("/usr/local/cuda/bin/nsys", "/opt/nvidia/nsight-systems/*/bin/nsys"),
    "ncu": ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu"),
}
"""Where NVIDIA's packages install a tool that is not on PATH; the latest of several versions wins."""
_HELP = {"nsys": (("profile", "--help"), ("export", "--help")), "ncu": (("--help",),)}
_PRODUCT = {"nsys": "Nsight Systems (nsys)", "ncu": "Nsight Compute (ncu)"}
_VERSION = re.compile(r"\b(\d{4}(?:\.\d+)+)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")


class CaptureError(TracelabError):
    """The profiler cannot capture this run; `status` is the status of the run."""

    def __init__(self, message: str, status: str = "profiler_error") -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Tool:
    """One installed profiler; `help` is its help text by subcommand."""

    name: str
    path: str
    version: str
    help: Mapping[str, str]

    def knows(self, option: str, verb: str = "profile") -> bool:
        """Return whether it has an option, written as --option."""
        return option in _OPTION.findall(self.help.get(verb, ""))

    def offers(self, option: str, value: str, verb: str = "profile") -> bool:
        """Return whether the help of an option lists a value."""
        match = re.search(
            rf"(?<![\w-]){option}(?![\w-]).*?(?=\n\s*-{{1,2}}[a-z]|\Z)", self.help.get(verb, ""), re.DOTALL
        )
        return match is not None and re.search(rf"(?<![\w-]){value}(?![\w-])", match[0]) is not None


def find_tool(name: str, environ: Mapping[str, str]) -> Tool:
    """Find the tool: $TRACELAB_NSYS or $TRACELAB_NCU, else on PATH, else in NVIDIA's install folders."""
    path = environ.get(f"TRACELAB_{name.upper()}") or shutil.which(name, path=environ.get("PATH")) or _installed(name)
    if path is None:
        raise CaptureError(
            f"{_PRODUCT[name]} is not installed or not on PATH; install it, load its module, "
            f"or set TRACELAB_{name.upper()} to its path"
        )
    output = run_tool([path, "--version"], environ)
    version = _VERSION.search(output)
    if version is None:
        raise CaptureError(f"{path} --version printed no version of {_PRODUCT[name]}: {_first_line(output)}")
    texts = {words[0] if len(words) > 1 else "profile": run_tool([path, *words], environ) for words in _HELP[name]}
    return Tool(name, path, version[1], texts)


def run_tool(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """Run a tool and return its stdout and stderr; raises CaptureError if it does not start or end."""
    try:
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=TIMEOUT_S,
            env={**environ, "LC_ALL": "C"},
        )
    except OSError as error:
        raise CaptureError(f"{command[0]} cannot be started: {error.strerror or error}; check the file") from error
    except subprocess.TimeoutExpired as error:
        arguments = " ".join(command[1:])
        raise CaptureError(f"{command[0]} {arguments} did not end within {TIMEOUT_S} s; run it by hand") from error
    return done.stdout


def _installed(name: str) -> str | None:
    paths: list[Path] = []
    for place in _INSTALL_PATHS[name]:
        paths += [path for path in sorted(Path("/").glob(place[1:]), key=_version_numbers) if os.access(path, os.X_OK)]
    return str(paths[-1]) if paths else None


def _version_numbers(path: Path) -> list[int]:
    """Return the version in a path as numbers: 2024.10 comes after 2024.9."""
    return [int(number) for number in re.findall(r"\d+", str(path))]


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "nothing")
