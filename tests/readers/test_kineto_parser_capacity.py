"""What exceeds a buffer of the compiled parser is refused, and read by the tolerant path."""

from collections.abc import Iterator

import pytest

from tests.readers.parsing import PLAIN, parse
from tracelab.readers.kineto import chunk_reader, mapping
from tracelab.readers.kineto.parser import compiled_parser
from tracelab.readers.kineto.parser.compiled_parser import CompiledParser, TooManyNamesError
from tracelab.readers.kineto.parser.layout import MAX_ARGUMENTS, MAX_KINDS, MAX_WATCHED_NAMES, NAMES_BYTES, ArgumentType
from tracelab.readers.kineto.parser.python_parser import PythonParser
from tracelab.readers.kineto.parser.types import RefusedChunkError

MAX_CHUNK_BYTES = 1 << 30


@pytest.fixture
def module() -> Iterator[compiled_parser.Module]:
    """A parser without names and plans."""
    module = CompiledParser()._module
    module.call("reset")
    yield module
    CompiledParser()  # a native build has one configuration for all


def add_names(module: compiled_parser.Module, function: str, names: list[bytes], *numbers: int) -> list[bool]:
    """Return which of the names the parser accepts."""
    accepted = []
    for name in names:
        address = module.call("reserve_name", len(name))
        if address:
            module.write(address, name)
        accepted.append(bool(address and module.call(function, len(name), *numbers)))
    return accepted


def test_names_fill_their_buffer_to_the_last_byte(module: compiled_parser.Module) -> None:
    names = [b"a" * (NAMES_BYTES - 2), b"b", b"cc", b"d", b"e", b""]
    assert add_names(module, "add_watched_name", names) == [True, True, False, True, False, True]


def test_watched_names_beyond_their_limit_are_refused(module: compiled_parser.Module) -> None:
    names = [b"%d" % number for number in range(MAX_WATCHED_NAMES + 2)]
    assert add_names(module, "add_watched_name", names) == [True] * MAX_WATCHED_NAMES + [False] * 2


def test_arguments_beyond_their_limit_are_refused(module: compiled_parser.Module) -> None:
    names = [b"%d" % number for number in range(MAX_ARGUMENTS + 2)]
    assert add_names(module, "add_argument", names, ArgumentType.JSON) == [True] * MAX_ARGUMENTS + [False] * 2


@pytest.mark.parametrize(("function", "numbers"), [("set_plan", (1, 1, 0)), ("set_secondary_plan", (1, 1))])
def test_plans_of_kinds_beyond_their_limit_are_refused(
    module: compiled_parser.Module, function: str, numbers: tuple[int, ...]
) -> None:
    kinds = [0, MAX_KINDS - 1, MAX_KINDS, 2**31, 2**32 - 1]
    assert [module.call(function, kind, *numbers) for kind in kinds] == [1, 1, 0, 0, 0]


def test_a_chunk_of_more_than_a_gigabyte_is_refused(module: compiled_parser.Module) -> None:
    assert [module.call("reserve_chunk", size) for size in (MAX_CHUNK_BYTES + 1, 2**32 - 1)] == [0, 0]
    assert module.call("reserve_chunk", 100)


@pytest.mark.parametrize("kind", [MAX_KINDS, 255])
def test_a_chunk_with_events_of_a_kind_that_does_not_exist_is_refused(kind: int) -> None:
    with pytest.raises(RefusedChunkError):
        parse('{"ph": "X"}, {"ph": "Y"}', kind_of=lambda shape: kind if shape.ph == "Y" else PLAIN)


@pytest.mark.parametrize(
    "names", [("x" * (NAMES_BYTES + 1),), tuple(map(str, range(MAX_WATCHED_NAMES + 1)))], ids=["long", "many"]
)
def test_where_names_exceed_the_buffers_events_are_parsed_in_python(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    monkeypatch.setattr(mapping, "WATCHED_NAMES", names)
    with pytest.raises(TooManyNamesError):
        CompiledParser()
    chunk_reader.compiled_parser_problem.cache_clear()
    try:
        with chunk_reader.borrow_parser() as borrowed:
            assert isinstance(borrowed, PythonParser)
    finally:
        chunk_reader.compiled_parser_problem.cache_clear()
