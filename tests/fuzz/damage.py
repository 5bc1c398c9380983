"""Damage small healthy files of the readers at random, read them, and compare with what the healthy file holds.

`python -m tests.fuzz.damage nsys nvprof --inputs 1000 --seed 2` runs as long as you like; without names it runs all.
It prints the number of each damaged input that crashes, leaks, loses rows without counting them, or takes twenty times
as long as the healthy file.
"""

import argparse
import gzip
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.fuzz import healthy
from tests.fuzz.healthy_databases import DATABASES
from tracelab.errors import SourceError
from tracelab.readers import decompress
from tracelab.readers.base import Reader, ReadResult, iterate_folder_readers, iterate_readers
from tracelab.store.writer import Sink

TARGETS = healthy.TEXTS | DATABASES
MOST_TIMES = 20
LEAST_SECONDS = 0.5
"""Of CPU; shorter reads are not compared, because they vary as much."""


COMPRESSED_SHARE = 0.2
GZIP_HEADER_BYTES = 10


@dataclass(frozen=True)
class Check:
    """What happened to one damaged input."""

    seed: int
    outcome: Literal["read", "refused", "failed"]
    problem: str = ""
    times: float = 0.0
    """CPU time, as a multiple of what the healthy file took."""


@dataclass(frozen=True)
class Outcome:
    """What was read of a file; `result` is None where it was refused with a sentence."""

    tables: dict[str, list[pa.Table]]
    result: ReadResult | None
    refusal: str
    seconds: float

    @property
    def texts(self) -> str:
        """Return every text that would be stored or printed."""
        messages = [row.message for row in self.result.diagnostics] if self.result else []
        columns = [column for parts in self.tables.values() for part in parts for column in part.columns]
        texts = [pc.unique(column).drop_null().to_pylist() for column in columns if pa.types.is_string(column.type)]
        return "\n".join([self.refusal, *messages, *chain.from_iterable(texts)])

    @property
    def counted(self) -> int:
        """Return how many losses the reader reports."""
        if self.result is None or any(row.code == healthy.TABLE_LOST for row in self.result.diagnostics):
            return 1 << 30
        return int(str(self.result.source["events_skipped"])) + sum(
            row.count for row in self.result.diagnostics if row.code not in healthy.NO_LOSS
        )


def read_source(path: Path) -> Outcome:
    """Read the file or folder with the first reader that accepts it, and write its rows as a store has them."""
    begin, refusal = time.process_time(), "no reader"
    name: Future[str] = Future()
    name.set_result("0" * 16)
    for reader in _find_readers(path):
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            sinks = []

            def open_sink(rank: int, folder: str = folder, sinks: list[Sink] = sinks) -> Sink:
                sinks.append(Sink(Path(folder), "r", name, rank))
                return sinks[-1]

            try:
                reader.probe_file(path)
                reader.time_span_ns(path)
                result = reader.read(path, open_sink, workers=1, progress=lambda _: None)
            except SourceError as error:
                refusal = str(error)
                continue
            seconds = time.process_time() - begin
            tables = {file.stem: [pq.read_table(file, partitioning=None)] for file in Path(folder).glob("*.parquet")}
            return Outcome(tables, result, "", seconds)
    return Outcome({}, None, refusal, time.process_time() - begin)


def _find_readers(path: Path) -> Iterator[Reader]:
    if path.is_dir():
        yield from (reader for reader in iterate_folder_readers() if reader.is_source(path))
        return
    with suppress(SourceError):
        head = decompress.read_head(path)
        yield from (reader for reader in iterate_readers(head) if reader.sniff(head))


def damage(content: bytes, rng: random.Random, first: int = 0) -> bytes:
    """Flip bits, cut, repeat, remove, or overwrite a part, behind the first bytes."""
    data = bytearray(content)
    at = rng.randrange(first, len(data))
    length = min(rng.choice((1, 8, 100, 1000)), len(data) - at)
    kind = rng.choice(("flip", "flip", "flip", "zeros", "garbage", "cut", "repeat", "remove"))
    if kind == "flip":
        for _ in range(rng.choice((1, 1, 3, 20))):
            data[rng.randrange(first, len(data))] ^= 1 << rng.randrange(8)
    elif kind == "zeros":
        data[at : at + length] = bytes(length)
    elif kind == "garbage":
        data[at : at + length] = rng.randbytes(length)
    elif kind == "cut":
        del data[at:]
    elif kind == "repeat":
        data[at:at] = data[at : at + length] * rng.choice((1, 3, 50))
    else:
        del data[at : at + length]
    return bytes(data)


def check_damaged(target: healthy.Target, folder: Path, seed: int, usual_seconds: float) -> Check:
    """Damage a file and read the source; AssertionError for a leak, an uncounted loss, or a slow read."""
    rng = random.Random(seed)
    names = sorted(target.files)
    (name,) = rng.choices(names, [len(target.files[name]) for name in names])
    content, first = target.files[name], target.intact_bytes[name]
    if target.is_text and rng.random() < COMPRESSED_SHARE:
        content, first = gzip.compress(content, mtime=0), GZIP_HEADER_BYTES
    try:
        (folder / name).write_bytes(damage(content, rng, first))
        outcome = read_source(folder / target.source)
        times = outcome.seconds / usual_seconds
        assert healthy.SECRET not in outcome.texts, "leaks"
        assert outcome.seconds < LEAST_SECONDS or times < MOST_TIMES, f"takes {times:.0f} times as long"
        if outcome.result is None:
            return Check(seed, "refused", times=times)
        lost = target.lost(folder / target.source, outcome.tables) if target.has_intact_beginning(folder / name) else []
        assert len(lost) <= outcome.counted, f"loses {len(lost)} rows, of which {outcome.counted} are counted"
        return Check(seed, "read", times=times)
    finally:
        (folder / name).write_bytes(target.files[name])


def run(name: str, seeds: Iterable[int], seconds: float = 1e9) -> Iterator[Check]:
    """Yield the outcome of each damaged input."""
    target, end = TARGETS[name](), time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for file, content in target.files.items():
            (folder / file).parent.mkdir(exist_ok=True)
            (folder / file).write_bytes(content)
        _import_all(folder)
        read_source(folder / target.source)  # once, for what is compiled at the first time
        usual = read_source(folder / target.source)
        assert usual.result is not None, usual.refusal
        lost = target.lost(folder / target.source, usual.tables)
        assert (lost, healthy.SECRET in usual.texts) == ([], False)
        for seed in seeds:
            if time.monotonic() > end:
                return
            try:
                yield check_damaged(target, folder, seed, usual.seconds)
            except Exception as error:  # noqa: BLE001 - any of them is a crash of the reader
                yield Check(seed, "failed", repr(error))


def _import_all(folder: Path) -> None:
    """Read a gzip file that no reader accepts, so that no damaged input waits for an import."""
    path = folder / "nothing"
    path.write_bytes(gzip.compress(b'{"schemaVersion": 1, "traceEvents": [{}, {"ph": "X", "ts": 1}'))
    for reader in iterate_readers():
        with suppress(SourceError):
            reader.probe_file(path)
    read_source(path)


def find_failures(name: str, inputs: int) -> list[Check]:
    """Return what fails of so many inputs, the same ones each time."""
    checks = list(run(name, range(inputs)))
    assert len(checks) == inputs
    return [check for check in checks if check.outcome == "failed"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--inputs", type=int, default=1000, help="for each target")
    parser.add_argument("--seconds", type=float, default=1e9, help="at most, for each target")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    has_failed = False
    for name in given.targets or TARGETS:
        first, slowest = given.seed * 10**9, 0.0
        outcomes = Counter[str]()
        for check in run(name, range(first, first + given.inputs), given.seconds):
            outcomes[check.outcome] += 1
            slowest = max(slowest, check.times)
            if check.outcome == "failed":
                print(f"{name}, seed {check.seed}: {check.problem}", flush=True)
        counts = ", ".join(f"{outcomes[outcome]:,} {outcome}" for outcome in ("read", "refused", "failed"))
        print(
            f"{name}: {outcomes.total():,} inputs, {counts}; the slowest took {slowest:.1f} times as long", flush=True
        )
        has_failed = has_failed or outcomes["failed"] > 0
    sys.exit(has_failed)


if __name__ == "__main__":
    main()
