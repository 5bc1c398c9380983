"""Parsers of Chrome traces: one in C that runs as WebAssembly, and a slower one in Python where that cannot run."""

import atexit
import contextlib
from collections import deque
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from tracelab.readers.kineto.parser.types import Parser, ParserError

if TYPE_CHECKING:
    from tracelab.readers.kineto.parser.compiled_parser import CompiledParser

_MAX_KEPT_BYTES = 32 << 20

_idle: "deque[CompiledParser]" = deque()
atexit.register(_idle.clear)  # wasmtime cannot free them once its modules are torn down


@contextlib.contextmanager
def borrow_parser() -> Iterator[Parser]:
    """Lend a parser while a file is read; the next file gets it again unless its memory has become large."""
    if compiled_parser_problem():
        from tracelab.readers.kineto.parser.python_parser import PythonParser

        yield PythonParser()
        return
    try:
        parser = _idle.pop()
    except IndexError:
        parser = _make_compiled_parser()
    yield parser
    if parser.memory_bytes() <= _MAX_KEPT_BYTES:
        _idle.append(parser)


@cache
def compiled_parser_problem() -> str | None:
    """Return why the compiled parser cannot run in this environment; None where it can."""
    try:
        _idle.append(_make_compiled_parser())
    except (ImportError, OSError, RuntimeError, ParserError) as error:  # all are raised where wasmtime cannot be loaded
        return str(error).splitlines()[0] if str(error) else type(error).__name__
    return None


def _make_compiled_parser() -> "CompiledParser":
    from tracelab.readers.kineto.parser.compiled_parser import CompiledParser

    return CompiledParser()
