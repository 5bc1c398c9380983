"""The events of a healthy piece as Arrow columns: a parser in C, which runs as WebAssembly, the same everywhere."""

from tracelab.readers.kineto.parser.events import NotHealthyError, Parser, Shape, parser

__all__ = ["NotHealthyError", "Parser", "Shape", "parser"]
