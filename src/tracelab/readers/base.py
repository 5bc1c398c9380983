"""What every reader offers, and what it says of a file."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tracelab.readers.diagnostics import Diagnostic
from tracelab.store.writer import Sink


@dataclass(frozen=True)
class Probe:
    """What the ends of a file tell, enough to decide which run it may belong to."""

    format: str
    rank: int | None = None
    world_size: int | None = None
    run: str | None = None
    """The run that the file itself says it is of."""


@dataclass(frozen=True)
class ReadResult:
    """What a reader learnt of a whole file: columns of its row in `sources`, and what it noticed."""

    source: dict[str, object] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()


class Reader(Protocol):
    """One family of formats; a module of functions."""

    VERSION: str
    DESCRIPTION: str
    """What it reads, as a message names it: "a Chrome trace as torch.profiler exports it"."""

    def sniff(self, head: bytes) -> bool:
        """Whether content that begins like this (unpacked) may be of this family."""

    def probe_file(self, path: Path) -> Probe:
        """Look at the ends of a file. Raises NotProfilerDataError, and the next reader that may take it is asked."""

    def time_span_ns(self, path: Path) -> tuple[int, int] | None:
        """About when the recording began and ended, in ns of the file's clock; None where that cannot be told."""

    def read(
        self, path: Path, open_sink: Callable[[int], Sink], *, workers: int, progress: Callable[[int], None]
    ) -> ReadResult:
        """Put all rows of the file into the sink made for its rank, as far as it is known.

        `progress` is told how many more bytes of the file have been read. Raises SourceError.
        """


class FolderReader(Reader, Protocol):
    """A reader for which a folder, too, can be one source; its other functions then take the folder's path."""

    def is_source(self, folder: Path) -> bool:
        """Whether the folder is one source, by the names of its files."""
