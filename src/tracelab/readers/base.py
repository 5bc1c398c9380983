"""The contract of a reader, and the list of all readers."""

import importlib
import importlib.util
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, cast

from tracelab.errors import ReaderBugError, ReaderCrashError, TracelabError, is_interrupt, wants_tracebacks
from tracelab.readers.diagnostics import COMMON_MESSAGES, GROUPING_MESSAGES, Diagnostic

if TYPE_CHECKING:
    from tracelab.store.writer import Sink


@dataclass(frozen=True)
class ReaderEntry:
    """One entry in the list of readers."""

    package: str
    """Its package in `tracelab.readers`, which offers the functions of `Reader`; imported when it may be needed."""
    signature: re.Pattern[bytes] | None = None
    """Content that begins like this is tried with this reader first, before the others are imported."""
    reads_folders: bool = False
    """Whether the package offers `FolderReader`."""


_TRACE_KEYS = rb"schemaVersion|deviceProperties|distributedInfo|displayTimeUnit|baseTimeNanoseconds|traceEvents"

READERS = (
    ReaderEntry("run_folder"),
    ReaderEntry("ncu"),
    ReaderEntry("kineto", signature=re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:' + _TRACE_KEYS + rb')"\s*:')),
    ReaderEntry("nvprof"),
    ReaderEntry("nsys", reads_folders=True),
)
"""All readers, in the order in which they are tried. Formats may begin alike (the SQLite files of two tools): the first
reader whose `sniff` accepts the beginning and whose `probe_file` accepts the file reads it."""


_CONTRACT = ("VERSION", "DESCRIPTION", "sniff", "probe_file", "time_span_ns", "read")


@dataclass(frozen=True)
class Probe:
    """What the beginning and the end of a file reveal; enough to decide which run it belongs to."""

    format: str
    """The value of `sources.format`, such as "kineto"."""
    rank: int | None = None
    """None: the file names no rank, or holds several."""
    world_size: int | None = None
    run: str | None = None
    """The name of the run, where the file itself has it."""
    host: str | None = None
    """The name of the host that recorded the file, where the file has it."""


@dataclass(frozen=True)
class ReadResult:
    """What a reader learned about a whole file."""

    source: dict[str, object] = field(default_factory=dict)
    """Columns of the file's row in `sources`. Required: `complete`, False where something was lost, and the counts
    `events_read`, `events_kept` and `events_skipped`. Ingest adds run, source, path, format, hash, size and version."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """Rows of `diagnostics`."""


class Reader(Protocol):
    """A package of functions that reads one family of formats.

    Errors, all with the path in them: NotProfilerDataError where the file is of another format (the next reader is
    tried), NothingToStoreError where the format is certain but holds nothing to store (no other reader is tried),
    SourceError where the file is damaged beyond use. Damage that leaves something to store is no error: the reader
    keeps what it can and counts the rest (`DiagnosticCounts`).
    """

    VERSION: str
    """Stored with every source, such as "kineto-6". A new version makes the next ingest store the files again: raise
    it whenever the same file results in other rows."""
    DESCRIPTION: str
    """What it reads, as error messages name it: "a Chrome trace as torch.profiler exports it"."""

    def sniff(self, head: bytes) -> bool:
        """Whether the file may be of this family.

        `head` is the first 64 KiB of the content (`decompress.SNIFF_BYTES`), decompressed. Must be cheap, raise
        nothing, and prefer a wrong yes to a wrong no: `probe_file` looks more closely.
        """

    def probe_file(self, path: Path) -> Probe:
        """Identify the file from its head and tail; runs before the ingest knows which run the file belongs to.

        Raises NotProfilerDataError, NothingToStoreError or SourceError.
        """

    def time_span_ns(self, path: Path) -> tuple[int, int] | None:
        """Return roughly when the recording begins and ends, in ns of the file's clock; None where that is unknown.

        Files in one folder whose spans overlap become ranks of one run.
        """

    def read(
        self, path: Path, open_sink: Callable[[int], "Sink"], *, workers: int, progress: Callable[[int], None]
    ) -> ReadResult:
        """Write all rows of the file into a sink, and return what belongs to the file as a whole.

        The file may be compressed: `decompress.open_decompressed` opens its content, notes damage and calls `progress`.
        Call `open_sink` once, with the file's rank (0 where it is unknown). `Sink.put(table, rows)` takes Arrow tables
        with columns of `schema`, from any thread: columns left out become NULL, `run` and `source` are added, and
        `rank` is added unless it is there. Times are integer ns, sizes bytes; an absent value is NULL, never 0 or
        an empty text. Call `Sink.close` at the end. Use at most `workers` threads. Call `progress` with the number of
        bytes of the file read since the last call; it raises an exception to stop the read, which must pass through.

        Raises SourceError, or NotProfilerDataError where the file turns out to hold no event. A column that does not
        fit the schema raises SchemaMismatchError in the sink: a bug in the reader, which must pass through, too.
        """


class BatchReader(Reader, Protocol):
    """A reader that reads many small files at once, for less than the sum of what each costs."""

    def read_many(
        self, files: "Sequence[tuple[Path, Callable[[int], Sink]]]", *, progress: Callable[[int], None]
    ) -> list[ReadResult | None]:
        """Read each file as `read` does, on one thread; None for a file that `read` must read, with all its errors."""


@contextmanager
def report_crashes(reader: Reader, path: Path) -> Iterator[None]:
    """Replace an error that the contract of a reader does not name by ReaderCrashError, which costs one file only."""
    try:
        yield
    except (TracelabError, OSError):
        raise
    except Exception as error:
        if is_interrupt(error):
            raise
        if wants_tracebacks():
            traceback.print_exc()
        module = getattr(reader, "__name__", "a reader")
        problem = " ".join([f"{type(error).__name__}:", *str(error).splitlines()[:1]])
        message = f"reader {reader.VERSION!r} failed ({module} raised {problem}); please report this file"
        raise ReaderCrashError(path, f"{message}; TRACELAB_TRACEBACK=1 prints the traceback") from error


def find_batch_reader(reader: Reader) -> BatchReader | None:
    """Return the reader as one that reads many files at once, if it is one."""
    return cast("BatchReader", reader) if hasattr(reader, "read_many") else None


class FolderReader(Reader, Protocol):
    """A reader that also takes a folder as one source; `probe_file`, `time_span_ns` and `read` accept its path."""

    def is_source(self, folder: Path) -> bool:
        """Whether the folder is one source, judged by the names of its files."""


def iterate_readers(head: bytes = b"") -> Iterator[Reader]:
    """Yield the readers in the order to try them on content that begins with `head`, each imported when it is next.

    Importing all of them takes as long as reading 20 MB.
    """
    entries = sorted(READERS, key=lambda entry: not (entry.signature and entry.signature.match(head)))
    for entry in entries:
        yield _import(entry)


def iterate_folder_readers() -> Iterator[FolderReader]:
    """Yield the readers that take folders."""
    for entry in READERS:
        if entry.reads_folders:
            yield cast("FolderReader", _import(entry))


def list_source_files(path: Path) -> list[Path]:
    """Return the files of a source: itself, or those in its folder, by name."""
    return sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]


def diagnostic_codes() -> frozenset[str]:
    """Return every code that a row of `diagnostics` can have, of all readers and of ingest."""
    codes = {*COMMON_MESSAGES, *GROUPING_MESSAGES}
    for entry in READERS:
        module = _find_messages(f"tracelab.readers.{entry.package}")
        codes |= {*getattr(module, "MESSAGES", ()), *getattr(module, "CODES_WITHOUT_MESSAGE", ())}
    return frozenset(codes)


def _find_messages(package: str) -> ModuleType:
    """Return the module of a reader's messages: of a package its `diagnostics`, else the reader itself."""
    reader = importlib.import_module(package)
    is_apart = hasattr(reader, "__path__") and importlib.util.find_spec(f"{package}.diagnostics") is not None
    return importlib.import_module(f"{package}.diagnostics") if is_apart else reader


def _import(entry: ReaderEntry) -> Reader:
    name = f"tracelab.readers.{entry.package}"
    try:
        reader = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ReaderBugError(
            f"READERS in readers/base.py lists {entry.package!r}, but there is no module {name}"
        ) from error
    required = [*_CONTRACT, *(["is_source"] if entry.reads_folders else [])]
    if missing := [attribute for attribute in required if not hasattr(reader, attribute)]:
        raise ReaderBugError(f"the reader {name} lacks {', '.join(missing)}; see Reader in readers/base.py")
    return cast("Reader", reader)
