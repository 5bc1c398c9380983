"""Damage small healthy files of the readers at random, read them, and compare with what the healthy file holds.

`python -m tests.fuzz.damage nsys --seconds 600 --seed 2` runs as long as you like. It prints the number of the first
damaged input that crashes, leaks, loses rows without counting them, or takes twenty times as long as the healthy file.
"""

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from tests.fuzz import healthy
from tracelab.errors import SourceError
from tracelab.readers.base import ReadResult, iterate_readers

MOST_TIMES = 20
LEAST_SECONDS = 2.0
"""Shorter reads are not compared: on a busy machine any of them can take that long."""


@dataclass
class MemorySink:
    """The rows of one file, in memory."""

    tables: dict[str, list[pa.Table]] = field(default_factory=dict)

    @property
    def rows(self) -> dict[str, int]:
        return {name: sum(part.num_rows for part in parts) for name, parts in self.tables.items()}

    def put(self, table: str, rows: pa.Table) -> None:
        rows.validate(full=True)
        self.tables.setdefault(table, []).append(rows)

    def close(self) -> None:
        pass

    def rewrite(self, table: str, change: Callable[[pa.Table], pa.Table]) -> None:
        full = [
            part
            if "rank" in part.column_names
            else part.append_column("rank", pa.repeat(pa.scalar(0, pa.int32()), part.num_rows))
            for part in self.tables[table]
        ]
        self.tables[table] = [change(part) for part in full]

    def values(self) -> Iterator[object]:
        for parts in self.tables.values():
            for part in parts:
                for column in part.columns:
                    yield from column.to_pylist()


@dataclass(frozen=True)
class Outcome:
    """What was read of a file; `result` is None where it was refused with a sentence."""

    sink: MemorySink
    result: ReadResult | None
    refusal: str
    seconds: float

    @property
    def texts(self) -> str:
        """Return every text that would be stored or printed."""
        messages = [row.message for row in self.result.diagnostics] if self.result else []
        return "\n".join([self.refusal, *messages, *(str(value) for value in self.sink.values() if value is not None)])

    @property
    def counted(self) -> int:
        """Return how many losses the reader reports."""
        if self.result is None:
            return 1 << 30
        return int(str(self.result.source["events_skipped"])) + sum(
            row.count for row in self.result.diagnostics if row.code not in healthy.NO_LOSS
        )


def read_file(path: Path) -> Outcome:
    """Read the file with the first reader that accepts it."""
    sink, begin = MemorySink(), time.monotonic()
    head = path.read_bytes()[: 1 << 16]
    refusal = "no reader"
    for reader in iterate_readers(head):
        if not reader.sniff(head):
            continue
        try:
            reader.probe_file(path)
            reader.time_span_ns(path)
            result = reader.read(path, lambda _: sink, workers=1, progress=lambda _: None)  # type: ignore[arg-type, return-value]
        except SourceError as error:
            refusal = str(error)
            continue
        return Outcome(sink, result, "", time.monotonic() - begin)
    return Outcome(MemorySink(), None, refusal, time.monotonic() - begin)


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


def check_damaged(target: healthy.Target, folder: Path, seed: int, usual_seconds: float) -> None:
    """Damage and read the file once; AssertionError for a leak, an uncounted loss, or a slow read."""
    rng = random.Random(seed)
    path = folder / target.name
    path.write_bytes(damage(target.content, rng, target.intact_bytes))
    outcome = read_file(path)
    assert healthy.SECRET not in outcome.texts, "leaks"
    assert outcome.seconds < max(LEAST_SECONDS, MOST_TIMES * usual_seconds), f"takes {outcome.seconds:.1f} s"
    if outcome.result is not None:
        assert len(target.lost(path, outcome.sink.tables)) <= outcome.counted, "loses rows without counting them"


def run(name: str, seeds: Iterator[int], seconds: float = 1e9) -> Counter[str]:
    """Check damaged inputs; an exception names the seed of the first failure."""
    target, outcomes, end = healthy.TARGETS[name](), Counter[str](), time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / target.name).write_bytes(target.content)
        usual = read_file(folder / target.name)
        assert usual.result is not None, usual.refusal
        assert (target.lost(folder / target.name, usual.sink.tables), healthy.SECRET in usual.texts) == ([], False)
        for seed in seeds:
            if time.monotonic() > end:
                break
            try:
                check_damaged(target, folder, seed, usual.seconds)
            except Exception as error:
                raise AssertionError(f"{name}, seed {seed}: {error!r}") from error
            outcomes["inputs"] += 1
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=healthy.TARGETS)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(run(given.target, iter(range(given.seed, 1 << 60)), given.seconds))


if __name__ == "__main__":
    main()
