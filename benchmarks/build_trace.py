"""Build a trace of any size by repeating the events of a small real one with later times and new ids."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from isal import igzip

NS_PER_US = 1_000
EVENTS_A_PIECE = 2_000
"""Events formatted at once: bounds memory, whatever the size of the source."""

FLOW_PHASES = frozenset("stfbne")
"""Only these events carry a top-level "id" that links them with others."""

NUMBER = re.compile(
    r'"(ts|id|correlation|wait_on_cuda_event_record_corr_id|[Ee]xternal id|Record function id|Sequence number|Ev Idx'
    r'|Python id|Python parent id)"\s*:\s*(\d+(?:\.\d+)?)(?![\d.eE])'
)
"""A quote inside a JSON string is escaped, so this finds keys only, never text of a name."""

NO_ID = {"correlation": {0, 2**32 - 1}, "External id": {0}, "external id": {0}, "Record function id": {0}}
"""Values that say there is no id; they stay."""


@dataclass(frozen=True)
class Built:
    """What was written: `repetitions` times the repeated events of the source, each `span_ns` after the one before."""

    path: Path
    text_bytes: int
    events: int
    repetitions: int
    repeated_events: int
    span_ns: int
    id_stride: int


@dataclass(frozen=True)
class Source:
    """A trace taken apart: the text around its events, the events that repeat, the ones that stand once."""

    head: str
    separator: str
    tail: str
    repeated: tuple[str, ...]
    once: tuple[str, ...]
    fractional: bool
    first_ns: int
    last_ns: int
    id_stride: int

    @property
    def span_ns(self) -> int:
        span_ns = self.last_ns - self.first_ns
        return span_ns if self.fractional else -(-span_ns // NS_PER_US) * NS_PER_US


@dataclass(frozen=True)
class Piece:
    """Some events as a %-template, with the numbers of repetition 0 and what one repetition adds to each."""

    template: str
    first: np.ndarray
    step: np.ndarray
    times: np.ndarray

    def repetition(self, number: int, *, fractional: bool) -> str:
        values = self.first + number * self.step
        if not fractional:
            values[self.times] //= NS_PER_US
            return self.template % tuple(values.tolist())
        # A time fills two holes: whole microseconds and three digits of nanoseconds.
        holes = np.repeat(values, 1 + self.times)
        ends = (np.cumsum(1 + self.times) - 1)[self.times]
        holes[ends - 1], holes[ends] = values[self.times] // NS_PER_US, values[self.times] % NS_PER_US
        return self.template % tuple(holes.tolist())


def build(source: Path, target: Path, size_bytes: int, *, gzip: bool) -> Built:
    """Write to `target` whole repetitions of the Kineto trace `source` until its text has `size_bytes` or more.

    Raises ValueError where the source has times that are not whole nanoseconds from 0 on, and where a written
    repetition is no valid JSON.
    """
    taken = _take_apart(source)
    pieces = list(_pieces(taken))
    aside = target.with_name(f".{target.name}.part")
    with _open(aside, gzip=gzip) as out:
        size = out.write(taken.head.encode())
        repetitions = 0
        while size < size_bytes or not repetitions:
            separator = "" if repetitions == 0 else taken.separator
            for piece in pieces:
                text = piece.repetition(repetitions, fractional=taken.fractional)
                if repetitions == 0 or size >= size_bytes * 0.9:
                    json.loads(f"[{text}]")
                size += out.write(f"{separator}{text}".encode())
                separator = taken.separator
            repetitions += 1
        once = [_late(event, taken, repetitions - 1) for event in taken.once]
        tail = "".join(f"{taken.separator}{event}" for event in once) + taken.tail
        json.loads(taken.head + tail[len(taken.separator) if once else 0 :])
        size += out.write(tail.encode())
    aside.replace(target)
    return Built(
        path=target,
        text_bytes=size,
        events=repetitions * len(taken.repeated) + len(taken.once),
        repetitions=repetitions,
        repeated_events=len(taken.repeated),
        span_ns=taken.span_ns,
        id_stride=taken.id_stride,
    )


@contextmanager
def _open(path: Path, *, gzip: bool) -> Iterator[BinaryIO]:
    with path.open("wb") as out:
        if not gzip:
            yield out
            return
        # mtime 0 and an empty name keep the bytes the same from one build to the next
        with igzip.IGzipFile(filename="", mode="wb", compresslevel=3, fileobj=out, mtime=0) as zipped:
            yield cast(BinaryIO, zipped)


def _take_apart(path: Path) -> Source:
    raw = path.read_bytes()
    text = (igzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
    events, head, separator, tail = _events(text)
    repeated, once = [], []
    first_ns, last_ns, id_stride, fractional = None, 0, 1, False
    for event_text, event in events:
        if _stands_once(event):
            once.append(event_text)
            continue
        times, ids = _numbers(event_text, event)
        if len(times) != ("ts" in event):
            raise ValueError(f"{path}: cannot shift the time of {event_text[:200]}")
        if times:
            start_ns = _ns(times[0])
            first_ns = start_ns if first_ns is None else min(first_ns, start_ns)
            last_ns = max(last_ns, start_ns + _ns(str(event.get("dur", 0))))
            fractional |= "." in times[0]
        repeated.append(event_text)
        id_stride = max(id_stride, *(value + 1 for value in ids), 1)
    if first_ns is None:
        raise ValueError(f"{path}: no event has a time; choose another trace")
    return Source(head, separator, tail, tuple(repeated), tuple(once), fractional, first_ns, last_ns, id_stride)


def _events(text: str) -> tuple[list[tuple[str, dict[str, object]]], str, str, str]:
    """Return each event's text and value, and the text before, between (as after the first) and after the events."""
    key = re.search(r'"traceEvents"\s*:\s*\[\s*', text) or re.match(r"\s*\[\s*", text)
    if key is None:
        raise ValueError("no traceEvents")
    decode, skip = json.JSONDecoder().raw_decode, re.compile(r"\s*,\s*")
    events, separator, at = [], ",\n", key.end()
    while True:
        value, end = decode(text, at)
        events.append((text[at:end], value))
        comma = skip.match(text, end)
        if comma is None:
            return events, text[: key.end()], separator, text[end:]
        separator, at = comma.group() if len(events) == 1 else separator, comma.end()


def _stands_once(event: dict[str, object]) -> bool:
    return event.get("ph") == "M" or event.get("cat") == "Trace" or event.get("pid") in ("", "Traces")


def _numbers(text: str, event: dict[str, object]) -> tuple[list[str], list[int]]:
    found = [match.groups() for match in NUMBER.finditer(text) if _is_number(match, event)]
    times = [value for key, value in found if key == "ts"]
    return times, [int(value) for key, value in found if key != "ts"]


def _is_number(match: re.Match[str], event: dict[str, object]) -> bool:
    key, value = match.groups()
    if key == "ts":
        return True
    if key == "id" and event.get("ph") not in FLOW_PHASES:
        return False
    return "." not in value and int(value) not in NO_ID.get(key, ())


def _ns(us: str) -> int:
    ns = Decimal(us) * NS_PER_US
    if ns != int(ns):
        raise ValueError(f"{us} µs is no whole number of ns")
    return int(ns)


def _us(ns: int, *, fractional: bool) -> str:
    whole, rest = divmod(ns, NS_PER_US)
    return f"{whole}.{rest:03d}" if fractional else str(whole)


def _pieces(source: Source) -> Iterator[Piece]:
    for start in range(0, len(source.repeated), EVENTS_A_PIECE):
        events = source.repeated[start : start + EVENTS_A_PIECE]
        texts, first, step, times = [], [], [], []
        for text in events:
            event = json.loads(text)
            at, parts = 0, []
            for match in NUMBER.finditer(text):
                if not _is_number(match, event):
                    continue
                is_time = match[1] == "ts"
                hole = "%d.%03d" if is_time and source.fractional else "%d"
                parts += [text[at : match.start(2)].replace("%", "%%"), hole]
                at = match.end(2)
                first.append(_ns(match[2]) if is_time else int(match[2]))
                step.append(source.span_ns if is_time else source.id_stride)
                times.append(is_time)
            texts.append("".join(parts) + text[at:].replace("%", "%%"))
        template = source.separator.join(texts)
        yield Piece(template, np.array(first, np.int64), np.array(step, np.int64), np.array(times, bool))


def _late(text: str, source: Source, repetitions: int) -> str:
    """Return an event that stands once, with the end of the recording moved behind the last repetition."""
    event = json.loads(text)
    key = {"Trace": "dur", "Record Window End": "ts"}.get(event.get("cat") or event.get("name"))
    if key is None:
        return text
    moved = re.search(rf'"{key}"\s*:\s*([\d.]+)', text)
    if moved is None:
        return text
    late = _us(_ns(moved[1]) + repetitions * source.span_ns, fractional=source.fractional)
    return text[: moved.start(1)] + late + text[moved.end(1) :]


if __name__ == "__main__":
    origin, goal, size_mb = sys.argv[1:]
    written = build(Path(origin), Path(goal), int(float(size_mb) * 1e6), gzip=goal.endswith(".gz"))
    print(json.dumps(asdict(written) | {"path": goal}))
