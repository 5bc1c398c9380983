"""Detect files of run folders by their first bytes: kind, run and rank."""

import re
from dataclasses import dataclass
from pathlib import Path

from tracelab.errors import NothingToStoreError, NotProfilerDataError, SourceError
from tracelab.readers import decompress
from tracelab.readers.base import Probe
from tracelab.readers.diagnostics import rank_from_name
from tracelab.readers.run_folder import nccl_tests, nvbandwidth
from tracelab.readers.run_folder.coerce import loads

DESCRIPTION = "a file that `tracelab collect` wrote, or the output of nvbandwidth or nccl-tests"

LINES = {name: name for name in ("steps", "memory_peaks", "host_samples", "ceilings")}
"""Kinds of JSON lines files, and the tables of their rows."""
KINDS = ("run", "ops", *LINES)
_VERSION = 1
_HEAD_BYTES = 4096
_MARK = re.compile(r'^\ufeff?\s*\{\s*"tracelab"\s*:\s*"([a-z_]{1,40})/(\d{1,6})"')
_NVBANDWIDTH = re.compile(rf'^\ufeff?\s*\{{\s*"{nvbandwidth.TITLE}"\s*:')
_RUN = re.compile(r'"run"\s*:\s*("(?:[^"\\]|\\.)*")')
_RANK = re.compile(r'"rank"\s*:\s*(\d{1,9})\b')


@dataclass(frozen=True)
class Kind:
    """Kind of a file: one of `KINDS`, nvbandwidth or nccl-tests; run and rank if the file names them."""

    name: str
    run: str | None = None
    rank: int | None = None


def sniff(head: bytes) -> bool:
    """Return whether the content is a file of a run folder, or output of nvbandwidth or nccl-tests."""
    return bool(_detect_kind_name(head))


def probe_file(path: Path) -> Probe:
    """Return kind, run and rank from the head of a file. Raises NotProfilerDataError."""
    kind = detect_kind(path)
    return Probe(format="run", rank=kind.rank, run=kind.run)


def time_span_ns(path: Path) -> tuple[int, int] | None:  # noqa: ARG001
    """Return None: the files of a run folder name their run."""
    return None


def detect_kind(path: Path) -> Kind:
    """Return the kind of a file.

    Raises SourceError for a file of a newer tracelab, NotProfilerDataError for a file of no run folder.
    """
    head = decompress.read_head(path)
    name = _detect_kind_name(head)
    if name is None:
        raise NotProfilerDataError(path, f"no profiler data; expected {DESCRIPTION}")
    mark = _MARK.match(_decode(head))
    if mark is None:
        return Kind(name)
    if name not in KINDS:
        raise NothingToStoreError(path, f"is an internal record of tracelab ({name}) without measurements")
    if int(mark[2]) != _VERSION:
        raise SourceError(
            path,
            f"was written by a newer tracelab ({name}/{mark[2]}); upgrade this one, which reads {name}/{_VERSION}",
        )
    start = _decode(head).split("\n", 1)[0] if name in LINES else _decode(head)[:_HEAD_BYTES]
    run, rank = _RUN.search(start), _RANK.search(start) if name != "run" else None
    return Kind(name, _parse_name(run[1]) if run else None, int(rank[1]) if rank else rank_from_name(path))


def _detect_kind_name(head: bytes) -> str | None:
    text = _decode(head)
    if mark := _MARK.match(text):
        return mark[1]
    if _NVBANDWIDTH.match(text):
        return nvbandwidth.TITLE
    return "nccl-tests" if nccl_tests.SETTINGS.search(text) else None


def _decode(head: bytes) -> str:
    return head.decode("utf-8", errors="replace")


def _parse_name(quoted: str) -> str | None:
    try:
        name = loads(quoted)
    except ValueError:
        return None
    return name if isinstance(name, str) else None
