"""The events of a healthy piece as Arrow columns: a parser in C, which runs as WebAssembly, the same everywhere."""

import wasmtime

from tracelab.readers.kineto.parser.columns import Unfit
from tracelab.readers.kineto.parser.events import NotHealthyError, Parsed, Parser, Shape, parser

FAILURES: tuple[type[Exception], ...] = (NotHealthyError, wasmtime.WasmtimeError, wasmtime.Trap)
"""What reading can end with where memory is not enough, or the parser is wrong."""

__all__ = ["FAILURES", "NotHealthyError", "Parsed", "Parser", "Shape", "Unfit", "parser"]
