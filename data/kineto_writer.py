"""Write events as a Chrome trace, field by field as Kineto exports it in torch 2.13."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

NS_PER_US = 1_000


@dataclass
class Event:
    """One complete event ("ph": "X"); `args` is written in its own order."""

    category: str
    name: str
    pid: int | str
    tid: int | str
    start_ns: int
    dur_ns: int = 0
    args: dict[str, object] = field(default_factory=dict)
    flows: list["Flow"] = field(default_factory=list)
    phase: str = "X"

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.dur_ns


@dataclass(frozen=True)
class Flow:
    """One end of an arrow; it is written behind the event it belongs to, at that event's time."""

    category: str
    number: int
    phase: str


def us(ns: int) -> str:
    """Write whole ns as Kineto does: microseconds with three digits behind the point."""
    return f"{ns // NS_PER_US}.{ns % NS_PER_US:03d}"


def text(top: dict[str, object], events: Iterable[Event], metadata: Iterable[str], trace_name: str) -> str:
    """Return a whole trace file: top-level fields, metadata events, then `events` in the order given."""
    fields = "".join(f'  "{key}": {json.dumps(value)},\n' for key, value in top.items())
    lines = [*metadata, *(line for event in events for line in _lines(event))]
    name = json.dumps(trace_name)
    return f'{{\n{fields}  "traceEvents": [\n' + ",\n".join(lines) + f'\n  ],"traceName": {name} }}\n'


def metadata(name: str, track: tuple[int | str, int | str], at_ns: int, value: tuple[str, object]) -> str:
    """Return a metadata event, as `thread_name`."""
    pid, tid = map(json.dumps, track)
    return (
        f'  {{\n    "ph": "M",\n    "name": "{name}",\n    "ts": {us(at_ns)},\n    "pid": {pid},\n    "tid": {tid},\n'
        f'    "args": {{\n      "{value[0]}": {json.dumps(value[1])}\n    }}\n  }}'
    )


def _lines(event: Event) -> list[str]:
    return [_whole(event), *(_flow(event, flow) for flow in event.flows)]


def _whole(event: Event) -> str:
    category = f'    "cat": "{event.category}",\n' if event.category else ""
    scope = {"cpu_instant_event": '    "s": "t",\n', "": '    "s": "g",\n'}.get(event.category, "")
    times = f'    "ts": {us(event.start_ns)}' + (f',\n    "dur": {us(event.dur_ns)}' if event.phase == "X" else "")
    args = json.dumps(event.args)[1:-1]
    return (
        f'  {{\n    "ph": "{event.phase}",\n{category}{scope}    "name": {json.dumps(event.name)},\n'
        f'    "pid": {json.dumps(event.pid)},\n    "tid": {json.dumps(event.tid)},\n{times}\n'
        + (f'    ,\n    "args": {{\n      {args}\n    }}\n' if args else "")
        + "  }"
    )


def _flow(event: Event, flow: Flow) -> str:
    binding = ',\n    "bp": "e"' if flow.phase == "f" else ""
    return (
        f'  {{\n    "ph": "{flow.phase}",\n    "id": {flow.number},\n    "pid": {json.dumps(event.pid)},\n'
        f'    "tid": {json.dumps(event.tid)},\n    "ts": {us(event.start_ns)},\n'
        f'    "cat": "{flow.category}",\n    "name": "{flow.category}"{binding}\n  }}'
    )
