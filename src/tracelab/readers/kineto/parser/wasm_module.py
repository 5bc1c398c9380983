"""The compiled parser: its functions, and its memory as NumPy arrays."""

import atexit
import contextlib
import ctypes
import hashlib
import mmap
import os
import sys
import threading
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import wasmtime

from tracelab.readers.kineto.parser.layout import STRUCTS
from tracelab.readers.kineto.parser.types import ParserError

try:
    import resource
except ImportError:  # Windows has none, and no such limit
    resource = None  # type: ignore[assignment]

Bytes: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]"

_FILE = Path(__file__).with_name("parser.wasm")

_compile_lock = threading.Lock()

_GROWTH_BYTES = 64 << 20
_MAX_ADDRESS = (1 << 32) - 1
_DIGEST_BYTES = hashlib.sha256().digest_size
_FAILURES = (wasmtime.WasmtimeError, wasmtime.Trap)


class WasmModule:
    """One instance of the parser, with a memory of its own; not for two threads at once.

    Its memory is fastest where the process may reserve addresses for all that it can become, 4 GB, which use no memory
    until they are written. Where it may not (`ulimit -v`), memory is taken as it grows.
    """

    address_bytes = 4

    def __init__(self) -> None:
        try:
            with _compile_lock:
                engine, module = _compile(may_reserve_addresses())
            self._store = wasmtime.Store(engine)
            self._exports = wasmtime.Instance(self._store, module, []).exports(self._store)
        except _FAILURES as error:
            raise ParserError(str(error)) from error
        memory = self._exports["memory"]
        assert isinstance(memory, wasmtime.Memory)  # noqa: S101 - for the type checker
        self._memory = memory
        self._content: Bytes | None = None
        self.has_fixed_memory = may_reserve_addresses()
        if self.has_fixed_memory:
            use_huge_pages(self._address(), _MAX_ADDRESS + 1)

    def call(self, function: str, *numbers: int) -> int:
        """Call a function of exports.c; returns 0 for one without a result. Addresses are numbers, too.

        Raises ParserError where the parser fails.
        """
        exported = self._exports[function]
        assert isinstance(exported, wasmtime.Func)  # noqa: S101 - for the type checker
        self._content = None
        try:
            result: int | None = exported(self._store, *numbers)
        except _FAILURES as error:
            raise ParserError(str(error)) from error
        return (result or 0) & _MAX_ADDRESS  # wasmtime returns signed numbers

    def write(self, address: int, content: "bytes | memoryview") -> None:
        """Copy bytes into the memory."""
        self._all()[address : address + len(content)] = np.frombuffer(content, dtype=np.uint8)

    def read(self, address: int, size: int) -> Bytes:
        """Return a view of bytes in memory, valid until the next call where memory moves as it grows."""
        return self._all()[address : address + size]

    def memory_bytes(self) -> int:
        """Return how large the memory has become."""
        return self._memory.data_len(self._store)

    def _all(self) -> Bytes:
        if self._content is not None:
            return self._content
        content = (ctypes.c_ubyte * self._memory.data_len(self._store)).from_address(self._address())
        self._content = np.frombuffer(memoryview(content), dtype=np.uint8)
        return self._content

    def _address(self) -> int:
        return ctypes.cast(self._memory.data_ptr(self._store), ctypes.c_void_p).value or 0


def use_huge_pages(address: int, size: int) -> None:
    """Ask Linux for pages of 2 MB in a range of anonymous memory: thousands of small ones take long to set up."""
    if hasattr(mmap, "MADV_HUGEPAGE"):
        ctypes.CDLL(None).madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.MADV_HUGEPAGE)


def may_reserve_addresses() -> bool:
    """Return whether no limit is set on the addresses of this process."""
    return resource is None or resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


@cache
def struct_type(name: str, address_bytes: int) -> "np.dtype[Any]":
    """Return the NumPy type of one of the structs of layout.toml, or of a plain type."""
    if name not in STRUCTS:
        return np.dtype(f"<u{address_bytes}" if name == "address" else name)
    return np.dtype([(field, struct_type(kind, address_bytes)) for field, kind in STRUCTS[name]], align=True)


@cache
def _compile(reserved: bool) -> tuple[wasmtime.Engine, wasmtime.Module]:  # noqa: FBT001 - a key of the cache
    config = wasmtime.Config()
    if not reserved:
        config.memory_reservation = 0
        config.memory_reservation_for_growth = _GROWTH_BYTES
        config.memory_guard_size = 1 << 16
    engine = wasmtime.Engine(config)
    return engine, _load_module(engine, _machine_code_file(reserved))


def _machine_code_file(reserved: bool) -> Path:  # noqa: FBT001 - as above
    """Return the file beside Python's own compiled modules in which the machine code is kept."""
    return Path(cache_from_source(str(_FILE))).with_name("parser.cwasm" if reserved else "parser.limited.cwasm")


def _load_module(engine: wasmtime.Engine, cached: Path) -> wasmtime.Module:
    """Return the parser from its machine code in a file, compiled for it first where that is needed.

    Compiling takes longer than parsing 16 MB. The file begins with a digest of the parser and of the machine code, and
    wasmtime checks its own version and the processor.
    """
    source = _FILE.read_bytes()
    with contextlib.suppress(OSError, wasmtime.WasmtimeError):
        content = cached.read_bytes()
        digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if digest == _digest(source, code):
            return wasmtime.Module.deserialize(engine, code)
    module = wasmtime.Module(engine, source)
    if not sys.dont_write_bytecode:
        code = bytes(module.serialize())
        _replace_file(cached, _digest(source, code) + code)
    return module


def _digest(source: bytes, code: bytes) -> bytes:
    return hashlib.sha256(source + code).digest()


def _replace_file(path: Path, content: bytes) -> None:
    """Write a file that other processes see whole or not at all, if the folder can be written."""
    written = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        written.write_bytes(content)
        written.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            written.unlink()


atexit.register(_compile.cache_clear)
