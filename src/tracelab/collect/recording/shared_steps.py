"""Keep the last steps of a process in shared memory, where they outlive a process that ends without Python's exit."""

import contextlib
import mmap
import socket
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence
from pathlib import Path
from typing import Any

from tracelab.collect.recording.step_times import StepTimes, format_step, steps_file
from tracelab.collect.run_folder import JsonLines

_ENDS, _OVERHEADS = 8192, 64
"""Steps whose ends the memory holds, and steps with a part of the profiler's: more than a process has in 0.1 s."""
_AT_ENDS = 2
_AT_OVERHEADS = _AT_ENDS + _ENDS
_WORDS = _AT_OVERHEADS + 2 * _OVERHEADS
"""Words of 64 bits: the numbers of steps and of overheads; ends of steps; overheads, each behind its step's number."""
_FILES = "steps.rank*.jsonl"

Memory = MutableSequence[int] | memoryview


class SharedStepTimes(StepTimes):
    """The steps of one process, of which the last are in shared memory, too."""

    def __init__(self, open_file: Callable[[], JsonLines], memory: Memory) -> None:
        super().__init__(open_file)
        self._memory = memory
        self._noted = 0

    def note(self, now_ns: int) -> None:
        """End a step, and begin the next one."""
        self._ends.append(now_ns)
        memory, number = self._memory, self._noted
        memory[_AT_ENDS + number % _ENDS] = now_ns
        memory[0] = self._noted = number + 1

    def end(self, now_ns: int, overhead_ns: int) -> None:
        """End a step of which `overhead_ns` are the profiler's, and begin the next one."""
        self._ends.append((now_ns, overhead_ns))
        memory, number = self._memory, self._noted
        if overhead_ns:
            at = _AT_OVERHEADS + 2 * (memory[1] % _OVERHEADS)
            memory[at], memory[at + 1] = number, overhead_ns
            memory[1] += 1
        memory[_AT_ENDS + number % _ENDS] = now_ns
        memory[0] = self._noted = number + 1

    def abandon(self) -> None:
        """Forget everything in a forked child: file and memory are its parent's."""
        super().abandon()
        self._memory = _private_memory()


def open_memory(folder: Path, process: str) -> Memory:
    """Return the memory of this process, by the name of its folder; `folder` is one of this node, for all of them.

    Where that cannot be written, as on another node than the collector's, the memory ends with the process. A mapped
    file of a network's disk could end the process with SIGBUS.
    """
    memory = _private_memory()
    with contextlib.suppress(OSError, ValueError), _memory_file(folder, process).open("w+b") as file:
        file.write(memory)
        file.flush()
        return memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")
    return memory


def complete_records(
    records: Iterable[dict[str, Any]], folder: Path, processes: Path, run: str
) -> list[dict[str, Any]]:
    """Complete records of processes that ended abruptly with their steps, and write the rows that they did not.

    Their last recordings count only if they were saved.
    """
    return [record if "ended" in record else _complete(record, folder, processes, run) for record in records]


def _complete(record: dict[str, Any], folder: Path, processes: Path, run: str) -> dict[str, Any]:
    steps, files = record.get("steps", 0), processes / record["folder"]
    if record.get("host") == socket.gethostname():
        with contextlib.suppress(OSError, ValueError):
            memory = memoryview(_memory_file(folder, record["folder"]).read_bytes()).cast("Q")
            steps = max(steps, memory[0])
            if "steps_problem" not in record:
                _write_rows(files, run, record.get("rank", 0), memory)
    rows = count_rows(files)
    steps = max(steps, rows + 1 if rows else 0)  # the first step has no row: when it begins is not known
    completed = record | {"steps": steps, "windows": record.get("windows", 0) - bool(record.get("recording"))}
    missing = steps - rows
    if missing > 1:
        lost = "time of the last step is" if missing == 2 else f"times of the last {missing - 1} steps are"  # noqa: PLR2004
        note = f"the {lost} lost, because the process ended abruptly"
        completed["note"] = "; ".join(filter(None, (record.get("note"), note)))
    return completed


def _write_rows(folder: Path, run: str, rank: int, memory: Sequence[int]) -> None:
    """Append the rows that only the memory has to the file of steps."""
    rows = list(_missing_rows(count_rows(folder), memory))
    if not rows:
        return
    if not any(folder.glob(_FILES)):
        steps_file(folder, run, rank).close()
    path = next(folder.glob(_FILES))
    whole_bytes = path.read_bytes().rfind(b"\n") + 1  # a process that is killed may leave half a line
    with path.open("r+b") as file:
        file.truncate(whole_bytes)
        file.seek(whole_bytes)
        file.writelines(f"{row}\n".encode() for row in rows)


def _missing_rows(written: int, memory: Sequence[int]) -> Iterator[str]:
    """Yield rows behind the first `written` ones, as far as the memory has begin and end of their steps."""
    steps = memory[0]
    overheads = memory[_AT_OVERHEADS:]
    overhead_ns = dict(zip(overheads[::2], overheads[1::2], strict=True)) if memory[1] else {}
    unix_ns = time.time_ns() - time.perf_counter_ns()  # a clock that all processes of the node share
    for number in range(max(written, steps - _ENDS) + 1, steps):
        start_ns, end_ns = (memory[_AT_ENDS + each % _ENDS] for each in (number - 1, number))
        yield format_step(unix_ns + start_ns, end_ns - start_ns - overhead_ns.get(number, 0), number)


def count_rows(folder: Path, rank: int | None = None) -> int:
    """Return the whole rows of steps in a folder, of one rank or of all."""
    files = folder.glob(_FILES if rank is None else _FILES.replace("*", str(rank)))
    return sum(max(0, path.read_bytes().count(b"\n") - 1) for path in files)


def _memory_file(folder: Path, process: str) -> Path:
    return folder / f"{process}.steps"


def _private_memory() -> "array[int]":
    return array("Q", bytes(8 * _WORDS))
