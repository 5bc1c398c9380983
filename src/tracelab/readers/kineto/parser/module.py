"""The compiled parser: its functions, and its memory as NumPy sees it."""

import ctypes
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import wasmtime

try:
    import resource
except ImportError:  # Windows has none, and no such limit
    resource = None  # type: ignore[assignment]

Bytes: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]"
Words: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.uint32]]"

_FILE = Path(__file__).with_name("parser.wasm")

_compiling = threading.Lock()

_GROWS_BY_BYTES = 64 << 20


class Module:
    """One instance of the parser, with a memory of its own; not for two threads at once.

    Its memory is fastest where the process may reserve addresses for all that it can become, 4 GB, which are not in
    use before. Where it may not (`ulimit -v`), memory is taken as it grows.
    """

    def __init__(self) -> None:
        with _compiling:
            engine, module = _compiled(may_reserve())
        self._store = wasmtime.Store(engine)
        self._exports = wasmtime.Instance(self._store, module, []).exports(self._store)
        memory = self._exports["memory"]
        assert isinstance(memory, wasmtime.Memory)  # noqa: S101 - for the type checker
        self._memory = memory

    def call(self, function: str, *numbers: int) -> int:
        """The answer of one of the functions of parser.c; 0 of one that gives none. Addresses are numbers, too."""
        exported = self._exports[function]
        assert isinstance(exported, wasmtime.Func)  # noqa: S101 - for the type checker
        answer: int | None = exported(self._store, *numbers)
        return answer or 0

    def put(self, address: int, content: "bytes | memoryview") -> None:
        """Copy bytes into the memory."""
        self.memory()[address : address + len(content)] = np.frombuffer(content, dtype=np.uint8)

    def memory(self) -> Bytes:
        """All of the memory, until the next call: it may grow."""
        start = ctypes.cast(self._memory.data_ptr(self._store), ctypes.c_void_p).value or 0
        content = (ctypes.c_ubyte * self._memory.data_len(self._store)).from_address(start)
        return np.frombuffer(memoryview(content), dtype=np.uint8)


def words(memory: Bytes, address: int, shape: Sequence[int]) -> Words:
    """Numbers of 32 bits that stand there."""
    size = 4 * int(np.prod(shape))
    found: Words = memory[address : address + size].view("<u4").reshape(tuple(shape))
    return found


def text(memory: Bytes, address: int, size: Any) -> str:  # noqa: ANN401 - a NumPy integer
    """A text that stands there."""
    return memory[address : address + int(size)].tobytes().decode()


def may_reserve() -> bool:
    """Whether no limit is set on the addresses of this process."""
    return resource is None or resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


@cache
def _compiled(reserved: bool) -> tuple[wasmtime.Engine, wasmtime.Module]:  # noqa: FBT001 - a key of the cache
    config = wasmtime.Config()
    if not reserved:
        config.memory_reservation = 0
        config.memory_reservation_for_growth = _GROWS_BY_BYTES
        config.memory_guard_size = 1 << 16
    engine = wasmtime.Engine(config)
    return engine, wasmtime.Module.from_file(engine, str(_FILE))
