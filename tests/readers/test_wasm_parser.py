"""The WebAssembly file of the parser: made of its sources, and able to grow where addresses are limited."""

import subprocess
import sys
from pathlib import Path

import pytest

from tracelab.readers.kineto import parser
from tracelab.readers.kineto.parser import generate_layout, wasm_module

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
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
