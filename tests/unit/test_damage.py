"""A store with a damaged or closed file fails with one sentence that names it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.build import build_store, file_of
from tracelab.client import Lab
from tracelab.errors import StoreError
from tracelab.store import integrity, session

KERNEL = {"name": "k", "device": 0, "start_ns": 5, "dur_ns": 10}
modes_bind = pytest.mark.usefixtures("modes_bind")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return build_store(tmp_path / "lab", {"kernels": [KERNEL, KERNEL | {"run": "s"}]})


def _pages(path: Path) -> None:
    """Overwrite every page, and leave the footer whole."""
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    path.write_bytes(content[:4] + b"\x55" * (footer - 4) + content[footer:])


def _alter(path: Path) -> None:
    """Flip one bit where no reader notices it: in the name of the program that wrote the file."""
    content = path.read_bytes()
    assert content.count(b"parquet-cpp-arrow") == 1
    path.write_bytes(content.replace(b"parquet-cpp-arrow", b"parquet-cpp-arros"))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:300])


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b""), _cut, _pages], ids=["empty", "cut", "pages"])
@pytest.mark.parametrize("run", ["r", "s"])
@pytest.mark.parametrize("table", ["sources", "kernels"])
def test_a_damaged_file_is_named(store: Path, table: str, run: str, damage: Callable[[Path], None]) -> None:
    path = file_of(store, table, run)
    damage(path)
    query = "kernel_summary" if table == "kernels" else "recordings"
    for ask in (lambda: Lab(store).query(query), lambda: Lab(store).sql("from kernels, sources")):
        with pytest.raises(StoreError) as raised:
            ask()
        assert str(raised.value).startswith(f"{path} is damaged (")
        assert "; ingest its trace again: `tracelab ingest " in str(raised.value)


@pytest.mark.parametrize(
    "error",
    [
        "The width (255) of the bitpacked data exceeds the supported max width (65), the file might be corrupted.",
        'Invalid string encoding found in Parquet file "k.parquet"',
        "'utf-8' codec can't decode byte 0xdd in position 17",
    ],
)
def test_an_altered_file_that_other_readers_accept_is_named(store: Path, error: str) -> None:
    path = file_of(store, "kernels", "s")
    _alter(path)
    assert len(Lab(store).sql("from kernels")) == 2
    with pytest.raises(StoreError, match=r"parquet is altered .*; ingest its trace again: `tracelab ingest") as raised:
        Lab(store).sql(f"select error($${error}$$)")
    assert str(raised.value).startswith(str(path))


def test_an_error_that_quotes_undecodable_bytes_names_the_altered_file(store: Path) -> None:
    path = file_of(store, "kernels", "s")
    _alter(path)
    with pytest.raises(StoreError, match="is altered"), integrity.explain_read_errors(store):
        b"\xdd".decode()
    with pytest.raises(UnicodeDecodeError), integrity.explain_read_errors(store.with_name("none")):
        b"\xdd".decode()


def test_init_names_a_damaged_file_too(store: Path) -> None:
    path = file_of(store, "sources", "s")
    path.write_bytes(b"")
    with pytest.raises(StoreError, match=f"{path.name} is damaged"):
        session.init_sql(store)


@modes_bind
@pytest.mark.parametrize("closed", ["commits", "sources", "kernels", "kernels/run=r", "kernels/run=r/*.parquet"])
def test_what_may_not_be_read_is_named(store: Path, closed: str) -> None:
    (path,) = store.glob(closed)
    path.chmod(0)
    try:
        with pytest.raises(StoreError, match="cannot be read: permission denied"):
            Lab(store).query("kernel_summary")
    finally:
        path.chmod(0o755)


def test_an_error_of_the_statement_blames_no_file(store: Path) -> None:
    with pytest.raises(Exception, match="my own"):
        Lab(store).sql("select error('my own')")
