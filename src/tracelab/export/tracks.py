"""Name and number the processes and threads of an export for Perfetto, in a useful order."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_MOST = 1 << 31  # Perfetto cuts larger process and thread numbers, so that tracks would fall together

Process = tuple[str, int, str, int | None]
"""Run, rank, and 'cpu' with the process id or 'gpu' with the device."""


@dataclass(frozen=True)
class Key:
    """Identity of a track: a row of `exported_tracks`."""

    run: str
    rank: int
    place: str
    pid: int | None = None
    tid: int | None = None
    device: int | None = None
    context: int | None = None
    stream: int | None = None
    track: str | None = None

    @property
    def process(self) -> Process:
        """Return the process of the track."""
        if self.place in ("gpu", "sync", "range"):
            return (self.run, self.rank, "gpu", self.device)
        return (self.run, self.rank, "cpu", self.pid)


@dataclass
class NumberPool:
    """Hands out each number once, the preferred one if it is free."""

    used: set[int] = field(default_factory=set)
    _next: int = 1

    def assign(self, preferred: int | None) -> int:
        """Return the preferred number, else the smallest free one."""
        if preferred is None or not 0 < preferred < _MOST or preferred in self.used:
            while self._next in self.used:
                self._next += 1
            preferred = self._next
        self.used.add(preferred)
        return preferred


@dataclass
class Track:
    """One track: key, number and name. Events of a flat track never nest."""

    key: Key
    number: int
    pid: int
    tid: int
    name: str
    lanes: list[int]
    """Thread numbers of the track's lanes, its own first."""

    @property
    def flat(self) -> bool:
        """Return whether concurrent events go to separate lanes instead of nesting."""
        return self.key.place in ("gpu", "sync")


@dataclass
class Layout:
    """All processes and tracks of an export."""

    pids: dict[Process, int]
    tracks: list[Track]
    threads: dict[int, NumberPool]
    """By process number: the thread numbers in use."""

    def lane(self, track: Track, lane: int) -> int:
        """Return the thread number of a lane of a track."""
        while len(track.lanes) <= lane:
            track.lanes.append(self.threads[track.pid].assign(None))
        return track.lanes[lane]


def build_layout(keys: Iterable[Key], counted: Iterable[Process], names: Mapping[Key, str]) -> Layout:
    """Number everything. Processes, threads and streams keep their numbers where these are unique.

    `counted` are processes with counters; `names` are the source's names of tracks.

    """
    ordered = sorted(keys, key=_order)
    processes = sorted({*(key.process for key in ordered), *counted}, key=_process_order)
    pids = _number_processes(processes)
    threads = {pid: NumberPool({pid}) for pid in pids.values()}  # with its process's number a thread is its main one
    several = _with_several_contexts(ordered)
    tracks = []
    for number, key in enumerate(sorted(ordered, key=lambda key: _original_number(key) is None)):
        pid = pids[key.process]
        preferred = _original_number(key)
        tid = pid if key.place == "cpu" and preferred == pid else threads[pid].assign(preferred)
        name = names.get(key) or _track_name(key, several=(key.process, key.stream) in several)
        tracks.append(Track(key, number, pid, tid, name, [tid]))
    return Layout(pids, tracks, threads)


def _number_processes(processes: Sequence[Process]) -> dict[Process, int]:
    """Number the processes; those with numbers of the operating system come first."""
    numbers = NumberPool()
    given = {process: numbers.assign(process[3]) for process in processes if process[2] == "cpu" and process[3]}
    return {process: given[process] if process in given else numbers.assign(None) for process in processes}


def _original_number(key: Key) -> int | None:
    return {"cpu": key.tid, "gpu": key.stream}.get(key.place)


def _with_several_contexts(keys: Iterable[Key]) -> set[tuple[Process, int | None]]:
    contexts: dict[tuple[Process, int | None], set[int | None]] = {}
    for key in keys:
        if key.place == "gpu":
            contexts.setdefault((key.process, key.stream), set()).add(key.context)
    return {stream for stream, of_stream in contexts.items() if len(of_stream) > 1}


_PLACES = ("steps", "path", "cpu", "other", "range", "gpu", "sync")


def _order(key: Key) -> tuple[object, ...]:
    # None sorts last: (is it None, the value)
    numbers = [(value is None, value or 0) for value in (key.pid, key.device, key.stream, key.context, key.tid)]
    return (*_process_order(key.process), _PLACES.index(key.place), numbers, key.track or "")


def _process_order(process: Process) -> tuple[object, ...]:
    run, rank, kind, number = process
    return (run, rank, kind, number is None, number or 0)


def _track_name(key: Key, *, several: bool) -> str:
    stream = f"stream {key.stream}" if key.stream is not None else "no stream"
    if several:
        stream += f" of context {key.context}"
    match key.place:
        case "steps":
            return "steps"
        case "path":
            return "critical path"
        case "range":
            return f"{stream}: ranges"
        case "sync":
            return f"{stream}: waits"
        case "gpu":
            return stream
        case "other" if key.track or key.tid is None:
            return key.track or "other events"
        case _:
            return f"thread {key.tid}" if key.tid is not None else "no thread"


def process_name(process: Process, cards: Mapping[tuple[str, int, int | None], str], *, runs: int) -> str:
    """Return the name of a process: rank 0 · GPU 1 · NVIDIA H200."""
    run, rank, kind, number = process
    parts = [run] if runs > 1 else []
    parts.append(f"rank {rank}")
    if kind == "gpu":
        parts.append(f"GPU {number}" if number is not None else "GPU")
        if card := cards.get((run, rank, number)):
            parts.append(card)
    else:
        parts.append(f"host, process {number}" if number is not None else "no process")
    return " · ".join(parts)


def ordered_threads(tracks: Iterable[Track]) -> Iterator[tuple[Track, int, str]]:
    """Yield every lane of every track with its name, in display order."""
    for track in sorted(tracks, key=lambda track: _order(track.key)):
        for lane in range(len(track.lanes)):
            yield track, lane, track.name + (f", beside it {lane}" if lane else "")
