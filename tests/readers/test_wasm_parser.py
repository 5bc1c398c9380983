"""The WebAssembly file of the parser: made of its sources, and able to grow where addresses are limited."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.readers.parsing import PLAIN, parse
from tracelab.readers.kineto import parser
from tracelab.readers.kineto.parser import generate_layout, wasm_module
from tracelab.readers.kineto.parser.compiled_parser import CompiledParser

FOLDER = Path(parser.__file__).parent


def test_the_file_is_what_the_sources_compile_to(tmp_path: Path) -> None:
    pytest.importorskip("ziglang", reason="needs a C compiler for WebAssembly: pip install ziglang")
    compiler = [sys.executable, "-m", "ziglang", "cc", f"@{FOLDER / 'c' / 'flags.txt'}"]
    subprocess.run([*compiler, "-o", str(tmp_path / "parser.wasm"), str(FOLDER / "c" / "parser.c")], check=True)
    assert (tmp_path / "parser.wasm").read_bytes() == (FOLDER / "parser.wasm").read_bytes(), "run `make parser`"


@pytest.mark.parametrize("path", generate_layout.generate(), ids=lambda path: path.name)
def test_the_layout_shared_with_python_is_generated_from_its_description(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == generate_layout.generate()[path], "run `make parser`"


@pytest.mark.skipif(wasm_module.resource is None, reason="this system limits no addresses")
def test_memory_grows_where_addresses_are_limited() -> None:
    program = """if True:
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
        from tracelab.readers.kineto.parser.compiled_parser import CompiledParser
        text = ",".join('{"ph": "X", "name": "' + str(at) + '"}' for at in range(500_000)).encode()
        tables = CompiledParser().parse_chunk(memoryview(text), lambda shapes: [0], base_ns=0).tables
        print(tables[0].column("name").to_pylist() == [str(at) for at in range(500_000)])
        print(CompiledParser().reserve_text(100))
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\nNone\n"


def test_a_chunk_in_reserved_text_is_parsed_where_it_lies() -> None:
    before, events, after = b" ,\n", b'{"ph": "X", "name": "a"}, {"ph": "X", "name": "b", "args": {"x": 1}}', b', {"ph'
    content = before + events + after
    parser = CompiledParser()
    text = parser.reserve_text(200)
    assert text is not None
    text[: len(content)] = content
    chunk = text[len(before) : len(before) + len(events)]
    for _ in range(2):  # parsed a second time, it is the same
        assert parse(chunk, parser=parser).tables == parse(events).tables
        assert bytes(text[: len(before) + len(events)]) == before + events

    longer = parser.reserve_text(1_000_000)
    assert longer is not None
    assert bytes(longer[: len(before) + len(events)]) == before + events

    assert parse(b'{"ph": "other"}', parser=parser).tables[PLAIN].column("ph").to_pylist() == ["other"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The empty folder for compiled modules."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    yield tmp_path
    assert not list(tmp_path.rglob(".*")), "no temporary file is left"


def load_and_list(folder: Path) -> list[tuple[str, int, bytes]]:
    """Load the parser; return name, number and content of each file in the folder."""
    wasm_module._compile.cache_clear()
    module = wasm_module.WasmModule()
    module.call("reset")
    assert module.call("reserve_chunk", 100)
    return [(file.name, file.stat().st_ino, file.read_bytes()) for file in folder.rglob("*.cwasm")]


def test_the_machine_code_is_kept_and_compiled_again_only_where_it_is_damaged(folder: Path) -> None:
    [first] = load_and_list(folder)
    assert first[0] == "parser.cwasm"
    assert load_and_list(folder) == [first]
    [path] = folder.rglob("*.cwasm")
    for damaged in (b"", first[2][:1000], first[2][:-1] + bytes([first[2][-1] ^ 1]), b"x" * len(first[2])):
        path.write_bytes(damaged)
        assert [content for *_, content in load_and_list(folder)] == [first[2]]


def test_machine_code_of_another_parser_or_wasmtime_is_not_loaded(folder: Path) -> None:
    [(_, _, content)] = load_and_list(folder)
    [path] = folder.rglob("*.cwasm")
    code = content[32:].replace(b"\x00", b"\x01", 40)
    path.write_bytes(wasm_module._digest(wasm_module._FILE.read_bytes(), code) + code)
    assert [content for *_, content in load_and_list(folder)] == [content]


def test_the_parser_loads_where_machine_code_cannot_be_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "file").touch()
    monkeypatch.setattr(sys, "pycache_prefix", str(folder / "file"))
    assert load_and_list(folder) == []
    monkeypatch.setattr(sys, "pycache_prefix", str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert load_and_list(folder) == []
