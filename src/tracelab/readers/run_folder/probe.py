"""What the first bytes of a file of a run folder tell: its kind, its run, its rank."""

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
"""Kinds of files of JSON lines, and the tables that their lines are rows of."""
KINDS = ("run", "ops", *LINES)
_VERSION = 1
_HEAD_BYTES = 4096
_MARK = re.compile(r'^\ufeff?\s*\{\s*"tracelab"\s*:\s*"([a-z_]{1,40})/(\d{1,6})"')
_NVBANDWIDTH = re.compile(rf'^\ufeff?\s*\{{\s*"{nvbandwidth.TITLE}"\s*:')
_RUN = re.compile(r'"run"\s*:\s*("(?:[^"\\]|\\.)*")')
_RANK = re.compile(r'"rank"\s*:\s*(\d{1,9})\b')


@dataclass(frozen=True)
class Kind:
    """What a file holds: one of `KINDS`, or nvbandwidth's or nccl-tests' output; run and rank where it says them."""

    name: str
    run: str | None = None
    rank: int | None = None


def sniff(head: bytes) -> bool:
    """Whether content that begins like this is of a run folder, or printed by one of the two."""
    return bool(_kind_name(head))


def probe_file(path: Path) -> Probe:
    """Look at the head of a file. Raises NotProfilerDataError."""
    kind = kind_of(path)
    return Probe(format="run", rank=kind.rank, run=kind.run)


def time_span_ns(path: Path) -> tuple[int, int] | None:  # noqa: ARG001
    """Not needed: the files of a run folder say which run they are of."""
    return None


def kind_of(path: Path) -> Kind:
    """The kind of a file. Raises SourceError for one that a newer tracelab wrote, NotProfilerDataError for no run's."""
    head = decompress.read_head(path)
    name = _kind_name(head)
    if name is None:
        raise NotProfilerDataError(path, f"holds no profiler data; expected {DESCRIPTION}")
    marked = _MARK.match(_text(head))
    if marked is None:
        return Kind(name)
    if name not in KINDS:
        raise NothingToStoreError(path, f"is a record of tracelab's own ({name}), and holds no measurements")
    if int(marked[2]) != _VERSION:
        raise SourceError(path, f"is of a newer tracelab ({name}/{marked[2]}); this one reads {name}/{_VERSION}")
    start = _text(head).split("\n", 1)[0] if name in LINES else _text(head)[:_HEAD_BYTES]
    run, rank = _RUN.search(start), _RANK.search(start) if name != "run" else None
    return Kind(name, _name(run[1]) if run else None, int(rank[1]) if rank else rank_from_name(path))


def _kind_name(head: bytes) -> str | None:
    text = _text(head)
    if marked := _MARK.match(text):
        return marked[1]
    if _NVBANDWIDTH.match(text):
        return nvbandwidth.TITLE
    return "nccl-tests" if nccl_tests.SETTINGS.search(text) else None


def _text(head: bytes) -> str:
    return head.decode("utf-8", errors="replace")


def _name(quoted: str) -> str | None:
    try:
        name = loads(quoted)
    except ValueError:
        return None
    return name if isinstance(name, str) else None
