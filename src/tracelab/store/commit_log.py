"""The log of a store: numbered commits, each created only where there is none; what it lists is what the store holds.

A commit adds parts, the files of one or more sources of a run, and removes others, at once. A checkpoint has what all
commits up to its number result in, so that a store is opened by one checkpoint and the few commits since.
"""

import hashlib
import json
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from tracelab import schema
from tracelab.errors import NoDataError, StoreError
from tracelab.store.files import StoreFiles

FOLDER = "commits"
_ENTRY = re.compile(r"(?P<number>\d{10})\.json")
_CHECKPOINT = re.compile(r"(?P<number>\d{10})\.state\.json")
_FRESH_S = 60.0
"""A snapshot that is older is read anew before it is added to: its next commits may be folded into a checkpoint."""

_MOST_CONFLICTS, _CONFLICT_S = 30, 0.1
"""How often a writer tries to create one commit, which exists where it fails and is then read; and the wait between."""

SMALL_BYTES = 1_000_000
"""The size of all traces of a small store together: some 10,000 events, or 100,000 where they are compressed."""

RESERVED_S = 24 * 3600.0
"""How long a name of a run stays reserved at most."""

PartKey: TypeAlias = tuple[str, str]
"""Run and name of a part."""
Listed: TypeAlias = Mapping[str, Any]
"""What the log has of a source: the fields of `StoredSource` that are known, but for run and part."""


class TableFile(NamedTuple):
    """Size and hash of a Parquet file, as ingest wrote it."""

    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class StoredSource:
    """What planning needs of a source in the store."""

    run: str
    part: str
    source: str
    sha256: str = ""
    size_bytes: int | None = None
    path: str = ""
    folder: str = ""
    """The folder of its file, without links."""
    format: str = ""
    reader_version: str = ""
    rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    span_ns: tuple[int, int] | None = None
    """When its recording begins and ends."""


@dataclass(frozen=True, eq=False)
class Part:
    """The files of one or more sources of a run, which one commit added: <table>/run=<run>/<name>.parquet.

    A checkpoint has thousands: what only some readers need is parsed when it is read.
    """

    run: str
    name: str
    schema_version: str
    ingested_at_s: float
    joined_tables: str
    joined_sources: str
    sizes: Sequence[int | None]
    """The size of each source's file."""
    folders: Sequence[str]
    """The folders of the sources' files, each once."""
    detail: str
    """Size and hash of each file, and the sources, as JSON."""

    @classmethod
    def of(
        cls, place: PartKey, written: tuple[str, float], files: Mapping[str, TableFile], sources: Sequence[Listed]
    ) -> "Part":
        """Describe a part: run and name, schema version and time, files and sources."""
        return cls(
            *place,
            *written,
            ",".join(files),
            ",".join(each["source"] for each in sources),
            [each.get("size_bytes") for each in sources],
            list(dict.fromkeys(each["folder"] for each in sources if each.get("folder"))),
            json.dumps({"files": files, "sources": sources}, separators=(",", ":")),
        )

    @cached_property
    def _parsed(self) -> Mapping[str, Any]:
        parsed: Mapping[str, Any] = json.loads(self.detail)
        return parsed

    @property
    def key(self) -> PartKey:
        """What identifies the part."""
        return self.run, self.name

    @property
    def tables(self) -> list[str]:
        """The tables that it has a file of."""
        return self.joined_tables.split(",")

    @property
    def files(self) -> dict[str, TableFile]:
        """Size and hash of the file of each table."""
        return {table: TableFile(*file) for table, file in self._parsed["files"].items()}

    @property
    def listed_sources(self) -> Sequence[Listed]:
        """What the log has of each source."""
        listed: Sequence[Listed] = self._parsed["sources"]
        return listed

    @property
    def sources(self) -> list[StoredSource]:
        """The sources."""
        return [parse_source(self.run, self.name, each) for each in self.listed_sources]

    @property
    def source_names(self) -> set[str]:
        """The first 16 digits of the hash of each source."""
        return set(self.joined_sources.split(",")) if self.joined_sources else set()

    def version_of(self, source: str) -> str:
        """Return the version of the reader that stored a source."""
        return next(str(each["reader_version"]) for each in self.listed_sources if each["source"] == source)

    @property
    def traces(self) -> list[str]:
        """The paths of the sources' files."""
        return [each["path"] for each in self.listed_sources]

    def key_of(self, table: str) -> str:
        """Return the key of the file of a table."""
        return table_key(table, self.run, self.name)

    @property
    def size_bytes(self) -> int:
        """The size of all files."""
        return sum(file.size_bytes for file in self.files.values())

    @property
    def keys(self) -> list[str]:
        """The keys of all files."""
        return [self.key_of(table) for table in self.tables]


@dataclass(frozen=True)
class Reservation:
    """A name of a run that an ingest has chosen and not used yet, and the files that it will be used for."""

    run: str
    folder: str
    """Hash of the folder of these files: ingests of one folder share a name, as they may be the same ingest twice."""
    owner: str
    """The staging folder of the ingest; the reservation ends with it."""
    at_s: float
    sources: Sequence[StoredSource] = ()


@dataclass(frozen=True)
class Checkpoint:
    """The number up to which commits are folded, and the file of all their rows in `sources`."""

    number: int
    rows_key: str
    rows: TableFile
    parts: frozenset[PartKey]
    """The parts whose rows are in the file; some may have been removed since."""


@dataclass(frozen=True)
class Change:
    """What a commit adds, removes and reserves."""

    adds: Sequence[Part] = ()
    removes: Sequence[PartKey] = ()
    reserves: Sequence[Reservation] = ()


@dataclass
class Snapshot:
    """What a store holds at one moment; `apply` and `advance` move it on."""

    number: int = 0
    """The last commit."""
    parts: dict[PartKey, Part] = field(default_factory=dict)
    reservations: list[Reservation] = field(default_factory=list)
    checkpoint: Checkpoint | None = None
    lost: dict[str, str] = field(default_factory=dict)
    """The keys of commits that cannot be read, and why: what they added is unknown."""
    read_at_s: float = 0.0
    holders: dict[str, tuple[PartKey, ...]] | None = None
    """The parts that hold a source, once `parts_with` was called."""

    @property
    def runs(self) -> set[str]:
        """The names of all runs."""
        return {run for run, _ in self.parts}

    @property
    def is_small(self) -> bool:
        """Whether the traces are known to be small, all together."""
        total = 0
        for part in self.parts.values():
            for size in part.sizes:
                if size is None or (total := total + size) > SMALL_BYTES:
                    return False
        return True

    def parts_with(self, source: str) -> list[Part]:
        """Return the parts that hold a source."""
        if self.holders is None:
            self.holders = {}
            for part in self.parts.values():
                self._hold(self.holders, part)
        return [self.parts[key] for key in self.holders.get(source, ()) if key in self.parts]

    @staticmethod
    def _hold(holders: dict[str, tuple[PartKey, ...]], part: Part) -> None:
        for source in part.source_names:
            holders[source] = (*holders.get(source, ()), part.key)

    def apply(self, change: Change) -> None:
        """Add and remove what a commit does."""
        self.number += 1
        for key in change.removes:
            self.parts.pop(key, None)
        for part in change.adds:
            self.parts[part.key] = part
            if self.holders is not None:
                self._hold(self.holders, part)
        self.reservations.extend(change.reserves)

    def skip(self, problem: str) -> None:
        """Pass by a commit that cannot be read."""
        self.number += 1
        self.lost[entry_key(self.number)] = problem

    def copy(self) -> "Snapshot":
        """Return a snapshot that moves on its own."""
        return replace(
            self,
            parts=dict(self.parts),
            reservations=list(self.reservations),
            lost=dict(self.lost),
            holders=None if self.holders is None else dict(self.holders),
        )


def parse_source(run: str, part: str, listed: Mapping[str, Any]) -> StoredSource:
    """Return a source as the log lists it."""
    span = listed.get("span_ns")
    return StoredSource(**{**listed, "run": run, "part": part, "span_ns": tuple(span) if span else None})


def table_key(table: str, run: str, name: str) -> str:
    """Return the key of the file of one table and part."""
    return f"{table}/run={run}/{name}.parquet"


def read_snapshot(files: StoreFiles) -> Snapshot:
    """Read what a store holds: its last intact checkpoint, and the commits since."""
    names = files.names(FOLDER)
    numbers = [int(match["number"]) for name in names if (match := _ENTRY.fullmatch(name))]
    folded = sorted((int(match["number"]) for name in names if (match := _CHECKPOINT.fullmatch(name))), reverse=True)
    snapshot = next((state for number in folded if (state := _read_checkpoint(files, number))), Snapshot())
    snapshot.read_at_s = _clock_s()
    last = max([*numbers, *folded[:1], 0])
    while snapshot.number < last:
        if not _apply_next(files, snapshot):
            snapshot.skip("missing")
    return snapshot


def open_snapshot(address: Path | str, files: StoreFiles) -> Snapshot:
    """Read what a store holds. Raises StoreError for a store of another major version of the schema."""
    snapshot = read_snapshot(files)
    versions = {part.schema_version for part in snapshot.parts.values()}
    if not snapshot.number and isinstance(address, Path):
        versions = _read_older_versions(address)
    for version in sorted(versions):
        if version.split(".")[0] != schema.SCHEMA_VERSION.split(".")[0]:
            raise StoreError(
                f"{address}: written with schema {version}, this tracelab has {schema.SCHEMA_VERSION}; "
                "re-ingest the traces into a new store"
            )
    return snapshot


def check_not_empty(address: Path | str, snapshot: Snapshot) -> Snapshot:
    """Return what a store holds. Raises NoDataError where it holds nothing."""
    if not snapshot.parts and not snapshot.lost:
        is_missing = isinstance(address, Path) and not address.is_dir()
        problem = "does not exist" if is_missing else "contains no ingested trace"
        raise NoDataError(f"the store {address} {problem}; run `tracelab ingest PATH --store {address}` first")
    return snapshot


def _read_older_versions(store: Path) -> set[str]:
    """Return the schema version of a store without a log: before version 3, each row in `sources` was a commit."""
    path = next(iter(store.glob("sources/run=*/*.parquet")), None)
    if path is None:
        return set()
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        (row, *_) = pq.read_table(path, columns=["schema_version"], partitioning=None).to_pylist()
    except (OSError, ValueError, pa.ArrowException):
        return set()
    return {str(row["schema_version"])}


def advance(files: StoreFiles, snapshot: Snapshot) -> Snapshot:
    """Return what a store holds now, from what it held."""
    if is_stale(snapshot):
        return read_snapshot(files)
    while _apply_next(files, snapshot):
        pass
    return snapshot


def is_stale(snapshot: Snapshot) -> bool:
    """Return whether commits since this snapshot may be gone, folded into a checkpoint."""
    return _clock_s() - snapshot.read_at_s > _FRESH_S


def _clock_s() -> float:
    """Return a time that goes on while the machine is suspended, where it has such a clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def append(
    files: StoreFiles, staging: Path, snapshot: Snapshot, decide: Callable[[Snapshot], Change | None]
) -> Snapshot | None:
    """Commit what `decide` returns for what the store holds now; None where it returns None.

    Where another commit comes first, `decide` is called again with the result of that. Each try has an id, as two
    writers may remove the same parts. Raises StoreError where the next commit exists, and cannot be found.
    """
    conflicts: Counter[int] = Counter()
    while True:
        snapshot = advance(files, snapshot)
        change = decide(snapshot)
        if change is None:
            return None
        number = snapshot.number + 1
        content = _render({"id": uuid.uuid4().hex, **_to_json(change)})
        if files.create(entry_key(number), content, staging):
            snapshot.apply(change)
            if is_stale(snapshot):
                _check_slot(files, snapshot.number)
            return snapshot
        conflicts[number] += 1
        if conflicts[number] > 1:
            time.sleep(_CONFLICT_S)
        if conflicts[number] == _MOST_CONFLICTS:
            problem = "exists, but a read does not find it"
            raise StoreError(f"the store's {entry_key(number)} {problem}; check the store, and run the command again")


def write_checkpoint(files: StoreFiles, staging: Path, snapshot: Snapshot, rows: bytes) -> None:
    """Fold all commits into a checkpoint; `rows` is the Parquet file of all rows in `sources`."""
    digest = hashlib.sha256(rows).hexdigest()
    rows_key = f"{FOLDER}/{snapshot.number:010d}-{digest[:12]}.sources.parquet"
    checkpoint = Checkpoint(snapshot.number, rows_key, TableFile(len(rows), digest), frozenset(snapshot.parts))
    files.write(rows_key, rows, staging)
    reserved = [each for each in snapshot.reservations if time.time() - each.at_s < RESERVED_S]
    body = _to_json(Change(list(snapshot.parts.values()), (), reserved))
    content = _render(body | {"rows": [rows_key, *checkpoint.rows]})
    files.write(f"{FOLDER}/{snapshot.number:010d}.state.json", content, staging)
    snapshot.checkpoint = checkpoint


def list_folded(files: StoreFiles, before_s: float) -> list[str]:
    """Return the keys of the log that are no longer needed: of commits before the last checkpoint but one.

    The last checkpoint may be damaged. A commit stays until `before_s`, so that a writer finds its number taken.
    """
    numbers = sorted(int(match["number"]) for name in files.names(FOLDER) if (match := _CHECKPOINT.fullmatch(name)))
    kept = numbers[-2:][0] if numbers else 0
    listed = ((file, Path(file.key).name) for file in files.walk(FOLDER))
    return [
        file.key
        for file, name in listed
        if file.modified_s < before_s
        and name[:10].isdigit()
        and (int(name[:10]) < kept or (int(name[:10]) == kept and _ENTRY.fullmatch(name)))
    ]


def void_entry(files: StoreFiles, staging: Path, key: str) -> None:
    """Replace a commit that cannot be read by one that changes nothing."""
    files.write(key, _render(_to_json(Change())), staging)


def _check_slot(files: StoreFiles, number: int) -> None:
    """Raise StoreError where a checkpoint has passed a commit by, whose writer was suspended for long."""
    names = files.names(FOLDER)
    if any(int(match["number"]) >= number for name in names if (match := _CHECKPOINT.fullmatch(name))):
        files.delete([entry_key(number)])
        raise StoreError("the ingest was suspended for too long to commit; ingest again")


def entry_key(number: int) -> str:
    """Return the key of a commit."""
    return f"{FOLDER}/{number:010d}.json"


def _apply_next(files: StoreFiles, snapshot: Snapshot) -> bool:
    """Move a snapshot on by one commit; return False where there is none."""
    try:
        snapshot.apply(_from_json(_parse(files.read(entry_key(snapshot.number + 1)))))
    except FileNotFoundError:
        return False
    except _DamagedError as error:
        snapshot.skip(f"damaged ({error})")
    except PermissionError:
        raise
    except OSError as error:
        snapshot.skip(f"damaged ({error.strerror})")
    return True


def _read_checkpoint(files: StoreFiles, number: int) -> Snapshot | None:
    """Read a checkpoint; None where it is damaged."""
    try:
        body = _parse(files.read(f"{FOLDER}/{number:010d}.state.json"))
    except (FileNotFoundError, _DamagedError):
        return None
    snapshot = Snapshot(number - 1)
    snapshot.apply(_from_json(body))
    rows_key, *rows = body["rows"]
    snapshot.checkpoint = Checkpoint(number, rows_key, TableFile(*rows), frozenset(snapshot.parts))
    return snapshot


class _DamagedError(Exception):
    """The content of a file of the log is not what was written."""


def _render(body: Mapping[str, Any]) -> bytes:
    """Render a file of the log, with the hash of its content."""
    text = json.dumps(body, separators=(",", ":")).encode()
    return b'{"sha256":"%s","body":%s}' % (hashlib.sha256(text).hexdigest().encode(), text)


def _parse(content: bytes) -> dict[str, Any]:
    head, _, rest = content.partition(b',"body":')
    text = rest.removesuffix(b"}")
    if head != b'{"sha256":"%s"' % hashlib.sha256(text).hexdigest().encode():
        raise _DamagedError("its SHA-256 differs from the recorded one")
    body: dict[str, Any] = json.loads(text)
    return body


def _to_json(change: Change) -> dict[str, Any]:
    return {
        "adds": [[getattr(part, each.name) for each in fields(Part)] for part in change.adds],
        "removes": change.removes,
        "reserves": [asdict(each) for each in change.reserves],
    }


def _from_json(body: Mapping[str, Any]) -> Change:
    return Change(
        [Part(*each) for each in body["adds"]],
        [(run, name) for run, name in body["removes"]],
        [_parse_reservation(each) for each in body["reserves"]],
    )


def _parse_reservation(listed: Mapping[str, Any]) -> Reservation:
    return Reservation(
        **{**listed, "sources": tuple(parse_source(listed["run"], "", each) for each in listed["sources"])}
    )
