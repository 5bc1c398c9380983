"""One kernel has many names: what the profilers call it, and the key that they share."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import duckdb
import pytest

from tests import corpus
from tracelab.store.session import MACROS

NSYS = sorted((corpus.ROOT / "nsys").rglob("*.sqlite"))


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute((MACROS / "35_names.sql").read_text("utf-8"))
        yield con


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("gemm", "gemm"),
        ("gemm(float*, int)", "gemm"),
        ("void blur<3>(float const*)", "blur"),
        ("void blur<(int)3>(const T1 *)", "blur"),
        ("a::b::gemm<float, c::Tile<1, (bool)0> >(c::Params)", "gemm"),
        ("void (anonymous namespace)::softmax<float>(float*)", "softmax"),
        ("void <unnamed>::softmax<float>(T1 *)", "softmax"),
        ("void a::apply<b<c>::d(e &)::[lambda(float) (instance 1)]>(int)", "apply"),
        ("void a::apply<b<c>::d(e&)::{lambda(float)#1}>(int)", "apply"),
        ("void a::Functor<float>::run<2>(int)", "run"),
        ("void apply<&(a::operator()(int)), (x->y)>(T1)", "apply"),
        ("unsigned int reduce(int)", "reduce"),
        ("scale(float*) [2317]", "scale"),
        ("void cut::off<float, and_then_noth", "off"),
        ("_Z4gemmPf", "_Z4gemmPf"),
        ("(", "("),
        ("", ""),
        (None, None),
    ],
)
def test_profilers_that_spell_a_kernel_differently_share_its_key(
    con: duckdb.DuckDBPyConnection, name: str | None, key: str | None
) -> None:
    assert con.execute("select kernel_key(?::varchar)", [name]).fetchone() == (key,)


def test_brackets_nest_as_deep_as_templates_do(con: duckdb.DuckDBPyConnection) -> None:
    name = "void f" + "<a" * 30 + ">" * 30 + "(int)"
    assert con.execute("select kernel_key(?)", [name]).fetchone() == ("f",)


@pytest.mark.traces
@pytest.mark.skipif(not NSYS, reason=str(corpus.needs_traces[1].kwargs["reason"]))
def test_the_key_of_a_demangled_name_is_the_short_name_that_nsys_gives_it(con: duckdb.DuckDBPyConnection) -> None:
    different, names = {}, 0
    for path in NSYS:
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as file:
            tables = {name for (name,) in file.execute("select name from sqlite_master")}
            if "CUPTI_ACTIVITY_KIND_KERNEL" not in tables:
                continue
            rows = file.execute(
                "select distinct demangled.value, short.value from CUPTI_ACTIVITY_KIND_KERNEL as kernel "
                "join StringIds as demangled on demangled.id = kernel.demangledName "
                "join StringIds as short on short.id = kernel.shortName"
            ).fetchall()
        for demangled, short in rows:
            (key,) = con.execute("select kernel_key(?)", [demangled]).fetchone()
            if key != short:
                different[path.stem, demangled] = (key, short)
        names += len(rows)
    assert (different, names > 100) == ({}, True)
