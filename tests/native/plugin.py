"""A pytest plugin that replaces the WebAssembly parser with the native library that NATIVE_PARSER names."""

import ctypes
import os
import sys

import numpy as np

from tracelab.readers.kineto.parser import compiled_parser
from tracelab.readers.kineto.parser.wasm_module import Bytes

_BOOLEANS = {
    *("add_watched_name", "add_argument", "set_plan", "set_secondary_plan"),
    *("place_chunk", "parse_chunk", "has_non_ascii", "build_columns"),
}
_NUMBERS = {"count_shapes", "count_irregular"}
_NOTHING = {"reset", "set_watched_argument", "set_secondary_arguments"}


class NativeModule:
    """The native parser, with the interface of WasmModule. All instances share its memory, and its configuration."""

    address_bytes = ctypes.sizeof(ctypes.c_void_p)
    has_fixed_memory = False  # each thread would read its chunks into the same memory

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ["NATIVE_PARSER"])

    def call(self, function: str, *numbers: int) -> int:
        exported = getattr(self._library, function)
        exported.restype = ctypes.c_uint64
        if function in _BOOLEANS:
            exported.restype = ctypes.c_bool
        elif function in _NUMBERS:
            exported.restype = ctypes.c_uint32
        elif function in _NOTHING:
            exported.restype = None
        result = exported(*(ctypes.c_uint64(number & (1 << 64) - 1) for number in numbers))
        return int(result or 0)

    def write(self, address: int, content: "bytes | memoryview") -> None:
        self.read(address, len(content))[:] = np.frombuffer(content, dtype=np.uint8)

    def read(self, address: int, size: int) -> Bytes:
        return np.frombuffer((ctypes.c_ubyte * size).from_address(address), dtype=np.uint8)

    def memory_bytes(self) -> int:
        return 0


assert "NATIVE_PARSER" in os.environ
compiled_parser.WasmModule = NativeModule  # type: ignore[assignment,misc]
print(f"The parser is {os.environ['NATIVE_PARSER']}", file=sys.stderr)
