"""Compare the Kineto reader with a plain reading in Python, on events in every lexical form and damage of every kind.

`python -m tests.fuzz.kineto_damage --seconds 3600 --seed 2` runs for an hour; an input that fails names its seed.
"""

import argparse
import contextlib
import json
import random
import re
import tempfile
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tracelab.readers.decompress import open_decompressed
from tracelab.readers.diagnostics import build_diagnostics
from tracelab.readers.kineto.chunk_reader import ChunkReader, borrow_parser
from tracelab.readers.kineto.chunker import Trace
from tracelab.readers.kineto.diagnostics import MESSAGES
from tracelab.readers.kineto.mapper import Mapper, borrow_connection
from tracelab.readers.kineto.metadata import TraceSummary
from tracelab.readers.kineto.read import ReaderThreads

SPAN = ("name", "start_ns", "dur_ns")
PHASE = re.compile(r'"ph"[ \t\r\n]*:')
PLAIN_NAMES = ("aten::add", "a, b", "é漢😀")
KID = "a kid"
"""The name of the objects in arguments, which are no events."""
SPACES = ("", " ", "\n", "\r\n\t", "  ")
NAMES = ("aten::add", "é漢😀", "a, b", "x}]", "[{", 'say \\"ph\\"', "\\u00e9\\n", "\\\\", ',{\\"', "}{")
NUMBERS = ("{}", "{}.0", "{}e0", '"{}"', "{}.000")
BRACKETS = re.compile(rb"[][{}]")
MOST_DAMAGES = 5
SMALLEST_TIME_LIMIT = 0.5
SLOWDOWN_LIMIT = 20

Span = tuple[str, int, int]
"""Name, start and duration of an event, in ns."""


class MismatchError(AssertionError):
    """The reader lost an event without counting it, changed one, or took too long."""


class TableCollector:
    """Keeps the parsed events instead of queuing them: mapping them to rows takes longer than all else."""

    is_kept = True

    def __init__(self) -> None:
        self.tables: list[pa.Table] = []

    def add(self, _: object, events: pa.Table) -> None:
        self.tables.append(events)

    def finish_reader(self) -> None:
        """Do nothing: no reader waits for another one."""

    def take(self) -> None:
        """Hand out nothing."""


@dataclass(frozen=True)
class Counts:
    """How many events were kept and skipped, and whether the file is a trace at all."""

    kept: int
    skipped: int
    is_trace: bool


@dataclass(frozen=True)
class Input:
    """A trace and its events: what each is, and the bytes that it consists of."""

    content: bytes
    spans: list[Span]
    texts: list[bytes]
    has_kids: bool
    """Whether arguments hold lists of objects that look like events."""


def write_trace(source: random.Random) -> Input:
    """Write a trace whose events and file have any form that JSON allows."""
    has_kids = source.random() < 0.25
    events = [_write_event(source, number, has_kids=has_kids) for number in range(source.randint(1, 12))]
    between = source.choice(SPACES) + "," + source.choice(SPACES)
    body = "[" + source.choice(SPACES) + between.join(text for text, _ in events) + source.choice(SPACES) + "]"
    form = source.randrange(4)
    if form == 1:
        body = f'{{"schemaVersion": 1,\n"traceEvents": {body}, "traceName": "x"}}'
    elif form:
        body = f'{{{source.choice(SPACES)}"traceEvents":{body}{source.choice(SPACES)}}}'
    texts = [text.encode() for text, _ in events]
    return Input(body.encode(), [span for _, span in events], texts, has_kids)


def _write_event(source: random.Random, number: int, *, has_kids: bool) -> tuple[str, Span]:
    start, dur = source.randrange(10**12), source.randrange(10**6)
    name = f"{number}:{source.choice(PLAIN_NAMES if has_kids else NAMES)}"
    us = f"{start // 1000}.{start % 1000:03d}" if source.random() < 0.5 else f"{start}e-3"
    args = {"External id": source.randrange(2**62), "shapes": [[1, 2], [], [{"deep": [None, True]}]], "note": "]},{"}
    if has_kids:
        kid = {"ph": "X", "cat": "cpu_op", "name": KID, "ts": 1, "pid": 1}
        args = {"External id": 1, "kids": [kid] * source.randrange(4), "deep": {"ph": "X", "kids": [[kid, 1, kid]]}}
    fields = {
        "ph": '"X"',
        "cat": '"cpu_op"',
        "name": f'"{name}"',
        "pid": source.choice(NUMBERS[:1] + NUMBERS[3:4]).format(source.randrange(1000)),
        "tid": source.choice(NUMBERS[:1] + NUMBERS[3:4]).format(source.randrange(1000)),
        "ts": us if source.random() < 0.8 else f'"{us}"',
        "dur": f"{dur}e-3",
        "args": json.dumps(args) if source.random() < 0.7 else "null",
    }
    keys = list(fields)
    if source.random() < 0.4:
        source.shuffle(keys)
    space = source.choice(SPACES)
    text = "{" + space + f",{space}".join(f'"{key}"{space}:{space}{fields[key]}' for key in keys) + space + "}"
    return text, (json.loads(f'"{name}"'), start, dur)


def damage(source: random.Random, content: bytes) -> bytes:
    """Damage a trace in one place, or in some."""
    data = bytearray(content)
    for _ in range(source.choice((1, 1, 1, 2, MOST_DAMAGES))):
        at = source.randrange(len(data)) if data else 0
        length = source.choice((1, 1, 2, 8, 40))
        kind = source.randrange(7)
        if kind == 0:
            del data[at:]
        elif kind == 1 and data:
            data[at] ^= 1 << source.randrange(8)
        elif kind == 2:
            del data[at : at + length]
        elif kind == 3:
            data[at:at] = data[at : at + length]
        elif kind == 4:
            quote = data.find(b":", at)
            data[quote + 3 : quote + 3] = b'"' if quote >= 0 else b""
        elif kind == 5:
            data[at:at] = source.choice((b"\0" * length, b"[", b"]", b"{", b"}", b",", b'"', b"\\", b"\xff"))
        else:
            data[at : at + length] = source.randbytes(length)
    return bytes(data)


def check(seed: int, folder: Path) -> None:
    """Read one trace, and the same damaged; raises MismatchError."""
    source = random.Random(seed)
    healthy = write_trace(source)
    before = time.process_time()
    counts, spans = read_spans(folder, healthy.content)
    healthy_s = time.process_time() - before
    if sorted(spans) != sorted(healthy.spans) or counts.skipped:
        raise MismatchError(f"seed {seed}: {sorted(spans)} instead of {sorted(healthy.spans)} in {healthy.content!r}")
    packed = source.random() < 0.3
    content = damage(source, _compress(healthy.content) if packed else healthy.content)
    before = time.process_time()
    counts, spans = read_spans(folder, content)
    if time.process_time() - before > max(SLOWDOWN_LIMIT * healthy_s, SMALLEST_TIME_LIMIT):
        raise MismatchError(f"seed {seed}: slow: {content!r}")
    text, is_whole = _decompress(content) if packed else (content, True)
    if counts.is_trace:
        _compare(seed, healthy, text, counts, spans, is_exact=is_whole)
        if healthy.has_kids and not packed:
            _check_kids(seed, healthy, text, counts, spans)


def _compare(seed: int, healthy: Input, text: bytes, counts: Counts, spans: list[Span], *, is_exact: bool) -> None:
    """Compare what was read of a damaged text with what it holds."""
    read = counts.kept + counts.skipped
    if counts.kept != len(spans):
        raise MismatchError(f"seed {seed}: {counts.kept} events counted, {len(spans)} kept of {text!r}")
    if is_exact and not healthy.has_kids:
        expected = min(count_events(text.decode("latin-1")), len(healthy.spans))  # damage may repeat a key in an event
        if read < expected:
            raise MismatchError(f"seed {seed}: {read} of {expected} events counted in {text!r}")
    first = next(
        (at for at, (old, new) in enumerate(zip(healthy.content, text, strict=False)) if old != new), len(text)
    )
    position = 0
    for event, span in zip(healthy.texts, healthy.spans, strict=True):
        position = healthy.content.index(event, position) + len(event)
        if position <= first and span not in spans:
            raise MismatchError(f"seed {seed}: {span} is lost, before the damage in {text!r}")
    changed = {span for span in spans if span[0] in {name for name, _, _ in healthy.spans}} - set(healthy.spans)
    elements = [text[start:end].strip() for start, end in find_elements(text.decode("latin-1"))]
    for event, span in zip(healthy.texts, healthy.spans, strict=True):
        if (
            text.count(event) == 1
            and event in elements
            and span not in spans
            and any(name == span[0] for name, _, _ in changed)
        ):
            raise MismatchError(f"seed {seed}: {span} is changed in {text!r}")


def count_events(text: str) -> int:
    """Count the events of a damaged text: each whole object, and each phase outside of one."""
    return sum(
        bool(PHASE.search(text, start, end) if end > start + 1 else PHASE.match(text, start))
        for start, end in find_elements(text)
    )


def find_elements(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the whole objects of a damaged text begin and end, and each character outside of one."""
    decode, at = json.JSONDecoder(strict=False).raw_decode, text.find("[") + 1
    while at < len(text):
        end = at + 1
        if text[at] == "{":
            with contextlib.suppress(ValueError):
                _, end = decode(text, at)
        yield at, end
        at = end


def _check_kids(seed: int, healthy: Input, text: bytes, counts: Counts, spans: list[Span]) -> None:
    """Check that objects inside events are neither rows nor counted where all brackets are as in the healthy file."""
    if BRACKETS.findall(text) != BRACKETS.findall(healthy.content):
        return
    if any(name == KID for name, _, _ in spans):
        raise MismatchError(f"seed {seed}: objects inside an event are rows of {text!r}")
    read = counts.kept + counts.skipped
    if read > len(healthy.spans) + MOST_DAMAGES:
        raise MismatchError(f"seed {seed}: {read} of {len(healthy.spans)} events counted in {text!r}")


def read_spans(folder: Path, content: bytes) -> tuple[Counts, list[Span]]:
    """Read a trace; return its counts and the names and times of all events."""
    path = folder / "trace.json"
    path.write_bytes(content)
    trace, summary, collector = Trace(), TraceSummary(), TableCollector()
    with (
        open_decompressed(path, trace.diagnostics, lambda _: None) as stream,
        borrow_connection() as connection,
        borrow_parser() as parser,
    ):
        mapper = Mapper(connection, None)
        reader = ChunkReader(connection, parser, collector, mapper, base_ns=0, check_stop=lambda: None)  # type: ignore[arg-type]
        ReaderThreads(stream, trace, None, summary).run([reader])  # type: ignore[arg-type]
    summary.diagnostics.merge(trace.diagnostics)
    build_diagnostics(summary.diagnostics, MESSAGES)
    spans = []
    for events in collector.tables:
        columns = [
            events.column(name).to_pylist() if name in events.column_names else [None] * len(events) for name in SPAN
        ]
        spans += list(zip(*columns, strict=True))
    return Counts(summary.events_kept, summary.events_skipped + trace.events_skipped, trace.has_events), spans


def _compress(content: bytes) -> bytes:
    packer = zlib.compressobj(1, wbits=31)
    return packer.compress(content) + packer.flush()


def _decompress(content: bytes) -> tuple[bytes, bool]:
    """Return what a damaged gzip holds, byte by byte, and whether all of it could be decompressed."""
    unpacker, text = zlib.decompressobj(wbits=31), b""
    try:
        for byte in content:
            text += unpacker.decompress(bytes([byte]))
    except zlib.error:
        return text, False
    return text, unpacker.eof


def run(seeds: range, seconds: float) -> int:
    """Check the inputs of these seeds for so many seconds; return how many."""
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        for done, seed in enumerate(seeds):
            if time.monotonic() > end:
                return done
            check(seed, Path(folder))
    return len(seeds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    start = given.seed * 10**9
    print(run(range(start, start + 10**9), given.seconds), "inputs")


if __name__ == "__main__":
    main()
