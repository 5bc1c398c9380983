"""The processes and threads of an export: numbers that Perfetto takes, names that people read, an order that helps."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_MOST = 1 << 31  # Perfetto cuts larger process and thread numbers, so that tracks would fall together

Process = tuple[str, int, str, int | None]
"""Run, rank, 'cpu' with the process id, or 'gpu' with the device."""


@dataclass(frozen=True)
class Key:
    """What tells a track: a row of `exported_tracks`."""

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
        """The process that the track belongs to."""
        if self.place in ("gpu", "sync", "range"):
            return (self.run, self.rank, "gpu", self.device)
        return (self.run, self.rank, "cpu", self.pid)


@dataclass
class Numbers:
    """Numbers that were given out, each once; a wanted one where it is free."""

    taken: set[int] = field(default_factory=set)
    _next: int = 1

    def give(self, wanted: int | None) -> int:
        """The wanted number, else the least that is free."""
        if wanted is None or not 0 < wanted < _MOST or wanted in self.taken:
            while self._next in self.taken:
                self._next += 1
            wanted = self._next
        self.taken.add(wanted)
        return wanted


@dataclass
class Track:
    """One track: its key, its number, and how the export calls it. Events of a flat one never lie in each other."""

    key: Key
    number: int
    pid: int
    tid: int
    name: str
    lanes: list[int]
    """Thread numbers of the track's lanes, the first its own."""

    @property
    def flat(self) -> bool:
        """Whether two events that run at once stand beside each other, not in each other."""
        return self.key.place in ("gpu", "sync")


@dataclass
class Layout:
    """All processes and tracks of an export."""

    pids: dict[Process, int]
    tracks: list[Track]
    threads: dict[int, Numbers]
    """By process number: the thread numbers given out in it."""

    def lane(self, track: Track, lane: int) -> int:
        """The thread number of a lane of a track."""
        while len(track.lanes) <= lane:
            track.lanes.append(self.threads[track.pid].give(None))
        return track.lanes[lane]


def layout(keys: Iterable[Key], counted: Iterable[Process], names: Mapping[Key, str]) -> Layout:
    """Number everything. Processes keep the number they had where it is the only one, threads and streams likewise.

    `counted` are processes that have counters; `names` are what the source calls a track.
    """
    ordered = sorted(keys, key=_order)
    processes = sorted({*(key.process for key in ordered), *counted}, key=_process_order)
    pids = _numbered(processes)
    threads = {pid: Numbers({pid}) for pid in pids.values()}  # with its process's number a thread is its main one
    several = _with_several_contexts(ordered)
    tracks = []
    for number, key in enumerate(sorted(ordered, key=lambda key: _wanted(key) is None)):
        pid = pids[key.process]
        wanted = _wanted(key)
        tid = pid if key.place == "cpu" and wanted == pid else threads[pid].give(wanted)
        name = names.get(key) or _name(key, several=(key.process, key.stream) in several)
        tracks.append(Track(key, number, pid, tid, name, [tid]))
    return Layout(pids, tracks, threads)


def _numbered(processes: Sequence[Process]) -> dict[Process, int]:
    """Numbers of the processes: those that the operating system gave first, so that no other takes them."""
    numbers = Numbers()
    given = {process: numbers.give(process[3]) for process in processes if process[2] == "cpu" and process[3]}
    return {process: given[process] if process in given else numbers.give(None) for process in processes}


def _wanted(key: Key) -> int | None:
    return {"cpu": key.tid, "gpu": key.stream}.get(key.place)


def _with_several_contexts(keys: Iterable[Key]) -> set[tuple[Process, int | None]]:
    contexts: dict[tuple[Process, int | None], set[int | None]] = {}
    for key in keys:
        if key.place == "gpu":
            contexts.setdefault((key.process, key.stream), set()).add(key.context)
    return {stream for stream, found in contexts.items() if len(found) > 1}


_PLACES = ("steps", "cpu", "other", "range", "gpu", "sync")


def _order(key: Key) -> tuple[object, ...]:
    # None sorts last: (is it None, the value)
    numbers = [(value is None, value or 0) for value in (key.pid, key.device, key.stream, key.context, key.tid)]
    return (*_process_order(key.process), _PLACES.index(key.place), numbers, key.track or "")


def _process_order(process: Process) -> tuple[object, ...]:
    run, rank, kind, number = process
    return (run, rank, kind, number is None, number or 0)


def _name(key: Key, *, several: bool) -> str:
    stream = f"stream {key.stream}" if key.stream is not None else "no stream"
    if several:
        stream += f" of context {key.context}"
    match key.place:
        case "steps":
            return "steps"
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
    """What a process is called: rank 0 · GPU 1 · NVIDIA H200."""
    run, rank, kind, number = process
    said = [run] if runs > 1 else []
    said.append(f"rank {rank}")
    if kind == "gpu":
        said.append(f"GPU {number}" if number is not None else "GPU")
        if card := cards.get((run, rank, number)):
            said.append(card)
    else:
        said.append(f"host, process {number}" if number is not None else "no process")
    return " · ".join(said)


def ordered_threads(tracks: Iterable[Track]) -> Iterator[tuple[Track, int, str]]:
    """Every lane of every track in the order in which people look for them, with its name."""
    for track in sorted(tracks, key=lambda track: _order(track.key)):
        for lane in range(len(track.lanes)):
            yield track, lane, track.name + (f", beside it {lane}" if lane else "")
