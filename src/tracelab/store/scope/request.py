"""What a scope is made of: steps, ranges, a stretch of time, streams, as texts that a person writes."""

import re
from dataclasses import dataclass
from typing import Literal, get_args

from tracelab.errors import UsageError

By = Literal["launch", "execution"]
BY: tuple[str, ...] = get_args(By)

_NUMBERS = re.compile(r"(?P<first>\d+)(?P<open>-(?P<last>\d+)?)?")
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "": 1}
_TIME = re.compile(r"(?P<whole>\d+)(?:\.(?P<fraction>\d+))?\s*(?P<unit>ns|us|µs|ms|s|)")


@dataclass(frozen=True)
class Span:
    """Whole numbers from `first` to `last`, None for no end; of numbers `last` belongs to it, of times it does not."""

    first: int
    last: int | None


@dataclass(frozen=True)
class Bounds:
    """The times at which a scope begins and ends by the clock of a source, None where the recording is the bound."""

    run: str
    source: str
    key: int
    """The number of the source in batches of rows."""
    from_ns: int | None
    to_ns: int | None


@dataclass(frozen=True)
class Scope:
    """The part of each recording that an answer is about: the rows that meet all of its conditions.

    `steps` are numbers such as "3-5,8" or "10-", and so are those of `stream`. `within` is a regular expression: what
    starts while a range, an op or an nn.Module runs whose name it finds. `from_` and `to` are times since the first
    event of the run, such as "350ms"; what starts at `to` is left out. `linked` leaves out rows of GPUs whose launch
    was not recorded. `after_start` leaves out the start of a program that `tracelab collect run` recorded, to the end
    of its first step; processes without one stay whole. `by` is the time at which rows of GPUs count: of their launch,
    or of their execution. Raises UsageError for what cannot be read.
    """

    steps: str | None = None
    within: str | None = None
    from_: str | None = None
    to: str | None = None
    stream: str | None = None
    linked: bool = False
    after_start: bool = False
    by: By = "launch"

    def __post_init__(self) -> None:
        """Check that all conditions can be read."""
        _ = self.step_numbers, self.stream_numbers, self.stretch
        if self.by not in BY:
            raise UsageError(f"rows of GPUs count by {' or '.join(BY)}, not by {self.by!r}")

    def __bool__(self) -> bool:
        """Return whether there is any condition."""
        return self.linked or self.stream is not None or not self.is_of_gpus

    @property
    def is_of_gpus(self) -> bool:
        """Whether all rows of CPUs meet all conditions."""
        return self.steps is None and self.within is None and not self.is_timed and not self.after_start

    @property
    def is_timed(self) -> bool:
        """Whether rows of other times are left out."""
        return self.from_ is not None or self.to is not None

    @property
    def is_span(self) -> bool:
        """Whether it is all that happens between two times: then these bound the windows of its GPUs."""
        others = (self.steps, self.within, self.stream)
        return self.is_timed and not self.linked and not self.after_start and others == (None, None, None)

    @property
    def chooses_rows(self) -> bool:
        """Whether it has conditions other than steps and times."""
        return self.stream is not None or self.within is not None or self.linked

    @property
    def path_note(self) -> str:
        """What the scope is for critical paths, as a sentence: these lead through rows outside of it."""
        windows = self.is_timed or self.steps is not None or self.after_start
        text = f"The critical path is that of the whole recording{', in the window of the scope' if windows else ''}"
        if self.chooses_rows:
            rows = f"rows{' on GPUs' if self.stream is not None else ''} in the scope"
            text += (
                f". Of its {rows} critical_path answers, with ratios of all of it; what_if changes these alone, and "
                "answers of all of it"
            )
        return f"{text}."

    @property
    def step_numbers(self) -> tuple[Span, ...]:
        """The numbers of the steps; empty where any will do."""
        return _parse_numbers("steps", self.steps)

    @property
    def stream_numbers(self) -> tuple[Span, ...]:
        """The numbers of the streams; empty where any will do."""
        return _parse_numbers("streams", self.stream)

    @property
    def stretch(self) -> Span | None:
        """The stretch of time in ns; None where any time will do."""
        if not self.is_timed:
            return None
        first = parse_time(self.from_ or "0")
        last = None if self.to is None else parse_time(self.to)
        if last is not None and last <= first:
            raise UsageError(f"the scope ends at {self.to}, not after its start at {self.from_ or 0}; raise --to")
        return Span(first, last)

    @property
    def options(self) -> tuple[str, ...]:
        """The options of a command with this scope."""
        named = {"--steps": self.steps, "--within": self.within, "--from": self.from_, "--to": self.to}
        named["--stream"] = self.stream
        words = [word for option, value in named.items() if value is not None for word in (option, value)]
        flags = {"--linked": self.linked, "--after-start": self.after_start}
        by_execution = ("--scope-by", self.by) if self.by != "launch" else ()
        return (*words, *(option for option, is_given in flags.items() if is_given), *by_execution)


def holds_number(spans: tuple[Span, ...], number: int) -> bool:
    """Return whether one of the spans has the number."""
    return any(span.first <= number and (span.last is None or number <= span.last) for span in spans)


def _parse_numbers(what: str, text: str | None) -> tuple[Span, ...]:
    if text is None:
        return ()
    spans = []
    for part in text.split(","):
        match = _NUMBERS.fullmatch(part.strip())
        if match is None:
            raise UsageError(f"{text!r} are no {what}; write numbers and spans, such as 3-5,8 or 10-")
        first = int(match["first"])
        last = None if match["open"] == "-" else int(match["last"] or first)
        if last is not None and last < first:
            raise UsageError(f"the {what} {part.strip()!r} end before they begin; write the lower number first")
        spans.append(Span(first, last))
    return tuple(spans)


def parse_time(text: str) -> int:
    """Return a time in ns, exactly: 1.5s, 20ms, 300us; a plain number is ns. Raises UsageError for other text."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no time; write it as 1.5s, 20ms, 300us or 1234567 (ns)")
    size, fraction = _UNITS[match["unit"]], match["fraction"] or ""
    return int(match["whole"]) * size + int(fraction or 0) * size // int(f"1{'0' * len(fraction)}")


def format_time(time_ns: int) -> str:
    """Format a time exactly, as `parse_time` reads it, in the largest unit that leaves a whole number: 300ms."""
    unit, size = next((unit, size) for unit, size in reversed(_UNITS.items()) if unit and time_ns % size == 0)
    return f"{time_ns // size}{unit}"
