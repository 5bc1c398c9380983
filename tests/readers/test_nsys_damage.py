"""Damaged and hostile exports: nothing crashes, and every row that sqlite3 can read is kept."""

import contextlib
import sqlite3
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from tests.properties import examples
from tests.readers.nsys_small import GLOBAL_PID, call, copy, export, folder_of, kernel, nvtx
from tests.readers.small import STATUSES, STORED, Lab, ingest_paths
from tracelab.errors import SourceError
from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nsys import sqlite_export
from tracelab.readers.nsys.export import iter_rows

KERNELS, COPIES, CALLS = (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "RUNTIME"))
MANY = 600


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of some pages of kernels, calls and copies."""
    tables = {
        KERNELS: [kernel(10 * at, 10 * at + 5, correlationId=at + 1) for at in range(MANY)],
        CALLS: [call(10 * at, 10 * at + 3, correlationId=at + 1) for at in range(MANY)],
        COPIES: [copy(10 * at, 10 * at + 3) for at in range(MANY)],
    }
    return export(tmp_path_factory.mktemp("whole"), tables)


@pytest.fixture(scope="module")
def content(whole: Path) -> bytes:
    return whole.read_bytes()


def damaged(folder: Path, content: bytes) -> Lab:
    path = folder / "report.sqlite"
    path.write_bytes(content)
    return ingest_paths(folder, [path])


def readable(path: Path, table: str) -> set[int]:
    """Return the starts of the rows that plain sqlite3 reads of a table in one query per row id."""
    con = sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)
    con.execute("pragma writable_schema = 1")
    found = set()
    for row_id in range(1, MANY + 1):
        try:
            rows = con.execute(f"select start from {table} where rowid = {row_id}").fetchall()
        except sqlite3.DatabaseError:
            continue
        found |= {start for (start,) in rows if isinstance(start, int)}
    con.close()
    return found


@pytest.mark.parametrize("share", [0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 0.999])
def test_a_cut_file_keeps_every_row_that_sqlite_can_read(tmp_path: Path, content: bytes, share: float) -> None:
    lab = damaged(tmp_path, content[: int(len(content) * share)])
    assert lab.file.status in ("salvaged", "failed", "not_profiler_data")
    if lab.file.status == "salvaged":
        path = tmp_path / "report.sqlite"
        for table, name in ((KERNELS, "kernels"), (CALLS, "api_calls"), (COPIES, "memcpys")):
            kept = {row["start_ns"] for row in lab.rows(name)}
            assert readable(path, table) <= kept
        assert not lab.source["complete"]
        assert lab.counts[2] > 0


def test_most_of_a_file_cut_in_its_middle_is_there(tmp_path: Path, content: bytes) -> None:
    lab = damaged(tmp_path, content[: len(content) // 2])
    assert lab.file.status == "salvaged"
    assert len(lab.rows("kernels")) > MANY // 2
    assert {"rows_lost"} <= lab.diagnostics()


def test_a_page_of_nonsense_costs_its_own_rows_only(tmp_path: Path, content: bytes) -> None:
    size = int.from_bytes(content[16:18], "big")
    for page in range(3, len(content) // size, 3):
        folder = tmp_path / str(page)
        folder.mkdir()
        lab = damaged(folder, content[: size * page] + b"\xff" * size + content[size * (page + 1) :])
        assert lab.file.status in STATUSES, page
        if lab.file.status in STORED:
            path = folder / "report.sqlite"
            for table, name in ((KERNELS, "kernels"), (CALLS, "api_calls"), (COPIES, "memcpys")):
                assert readable(path, table) <= {row["start_ns"] for row in lab.rows(name)}, (page, name)


_FLIP = st.tuples(st.floats(0, 0.999999), st.integers(0, 255))


@examples(25, suppress_health_check=list(HealthCheck))
@given(st.lists(_FLIP, min_size=1, max_size=8))
@example([(0.03125, 128)])  # a name that is no text
def test_flipped_bytes_never_crash(tmp_path_factory: pytest.TempPathFactory, whole: Path, flips: list) -> None:
    broken = bytearray(whole.read_bytes())
    for place, value in flips:
        broken[int(place * len(broken))] = value
    lab = damaged(tmp_path_factory.mktemp("flipped"), bytes(broken))
    assert lab.file.status in STATUSES
    assert "please report" not in lab.file.message


@pytest.mark.parametrize("cell", ["soon", b"\xff\xfe", 1.5])
def test_a_cell_of_a_wrong_type_costs_that_cell_only(tmp_path: Path, cell: object) -> None:
    lab = ingest_paths(tmp_path, [export(tmp_path, {KERNELS: [kernel(), kernel(gridX=cell, start=2000, end=2005)]})])
    assert [(row["start_ns"], row["grid_x"]) for row in lab.rows("kernels")] == [(1000, 4), (2000, None)]
    (diagnostic,) = (row for row in lab.rows("diagnostics") if row["code"] == "value_unfit")
    assert (diagnostic["count"], lab.counts) == (1, (2, 2, 0))


def test_a_wrong_type_after_many_right_ones_costs_that_cell_only(tmp_path: Path) -> None:
    rows = [kernel(at, at + 1) for at in range(70_000)] + [kernel(80_000, "late")]
    lab = ingest_paths(tmp_path, [export(tmp_path, {KERNELS: rows})])
    durations = Counter(row["dur_ns"] for row in lab.rows("kernels"))
    assert durations == {1: 70_000, None: 1}


def test_a_number_beyond_its_column_is_null_and_counted(tmp_path: Path) -> None:
    lab = ingest_paths(tmp_path, [export(tmp_path, {KERNELS: [kernel(gridX=1 << 40, deviceId=1 << 33)]})])
    row = lab.one("kernels")
    assert (row["grid_x"], row["device"]) == (None, None)
    assert "value_unfit" in lab.diagnostics()


@pytest.mark.parametrize(("start", "end"), [((1 << 63) - 1, 5), (5, (1 << 63) - 1), (-(1 << 63), 5)])
def test_an_absurd_time_is_null_and_counted(tmp_path: Path, start: int, end: int) -> None:
    lab = ingest_paths(tmp_path, [export(tmp_path, {KERNELS: [kernel(start, end)]})])
    assert lab.one("kernels")["dur_ns"] is None
    assert "time_unreadable" in lab.diagnostics()


def test_a_kernel_that_ends_before_it_begins_is_kept_and_counted(tmp_path: Path) -> None:
    lab = ingest_paths(tmp_path, [export(tmp_path, {KERNELS: [kernel(1000, 990)]})])
    assert (lab.one("kernels")["dur_ns"], "negative_duration" in lab.diagnostics()) == (-10, True)


def test_a_name_that_is_no_utf_8_is_replaced_and_counted(tmp_path: Path) -> None:
    path = export(tmp_path, {KERNELS: [kernel()]})
    with sqlite3.connect(path) as con:
        con.execute("update StringIds set value = cast(x'61ff62' as text) where id = 1")
    con.close()
    lab = ingest_paths(tmp_path, [path])
    assert (lab.kernels, "invalid_text" in lab.diagnostics()) == (["a\N{REPLACEMENT CHARACTER}b"], True)


def test_a_broken_file_of_a_folder_costs_that_table_only(tmp_path: Path) -> None:
    folder = folder_of(export(tmp_path, {KERNELS: [kernel()], COPIES: [copy()]}), tmp_path / "in" / "r_pqtdir")
    (folder / f"{COPIES}.parquet").write_bytes(b"PAR1 and then nothing")
    lab = ingest_paths(tmp_path, [folder])
    assert (lab.file.status, len(lab.kernels), lab.rows("memcpys")) == ("salvaged", 1, [])
    assert "table_lost" in lab.diagnostics()


def test_a_column_of_a_parquet_file_whose_name_is_not_utf8_costs_that_table_only(tmp_path: Path) -> None:
    folder = folder_of(export(tmp_path, {KERNELS: [kernel()], COPIES: [copy()]}), tmp_path / "in" / "r_pqtdir")
    file = folder / f"{COPIES}.parquet"
    file.write_bytes(file.read_bytes().replace(b"copyKind", b"copyK\xe4nd"))
    lab = ingest_paths(tmp_path, [folder])
    assert (lab.file.status, len(lab.kernels), lab.rows("memcpys")) == ("salvaged", 1, [])
    assert "table_lost" in lab.diagnostics()


def test_rows_that_a_damaged_page_hides_are_counted(tmp_path: Path) -> None:
    """Arrow ends at the shortest column, here at one without values, and raises no error."""
    rows = [kernel(at, at + 1) for at in range(40)]
    folder = folder_of(export(tmp_path, {KERNELS: rows}), tmp_path / "in" / "r_pqtdir")
    file = folder / f"{KERNELS}.parquet"
    group = pq.read_metadata(file).row_group(0)
    pages = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    content = bytearray(file.read_bytes())
    header = content.index(b"\x15\x00\x15", pages["launchType"].data_page_offset)
    content[header + 1] = 2
    file.write_bytes(content)
    assert sum(batch.num_rows for batch in pq.ParquetFile(file).iter_batches(columns=["start", "launchType"])) == 0
    lab = ingest_paths(tmp_path, [folder])
    assert (lab.counts, lab.file.status, "rows_lost" in lab.diagnostics()) == ((40, 0, 40), "salvaged", True)


def test_a_folder_of_broken_files_is_no_profiler_data(tmp_path: Path) -> None:
    folder = tmp_path / "r_pqtdir"
    folder.mkdir()
    (folder / "StringIds.parquet").write_bytes(b"nothing")
    assert ingest_paths(tmp_path, [folder]).file.status == "not_profiler_data"


def test_a_page_of_nonsense_in_a_parquet_file_loses_what_follows_it(tmp_path: Path) -> None:
    rows = [kernel(at, at + 1) for at in range(5_000)]
    folder = folder_of(export(tmp_path, {KERNELS: rows, COPIES: [copy()]}), tmp_path / "in" / "r_pqtdir")
    file = folder / f"{KERNELS}.parquet"
    offset = pq.read_metadata(file).row_group(0).column(0).data_page_offset
    content = bytearray(file.read_bytes())
    content[offset : offset + 64] = b"\xff" * 64
    file.write_bytes(content)
    lab = ingest_paths(tmp_path, [folder])
    assert (lab.file.status, lab.counts[2], len(lab.rows("memcpys"))) == ("salvaged", 5_000, 1)


_ID = st.one_of(st.none(), st.sampled_from([-1, 0, 7, 4294967295]), st.integers(0, 1 << 20))
_TIME = st.integers(-(10**6), 10**12)
_ROW = st.builds(
    lambda start, dur, device, stream, correlation, name, pid: {
        **kernel(start, start + dur, deviceId=device, streamId=stream, correlationId=correlation, demangledName=name),
        "globalPid": (1 << 48) | (pid << 24),
        "shortName": None,
    },
    *(_TIME, st.integers(-5, 10**9), st.integers(0, 3), _ID, _ID, st.sampled_from([1, 2, 4, None]), st.integers(1, 4)),
)


@examples(25, suppress_health_check=list(HealthCheck))
@given(st.lists(_ROW, min_size=1, max_size=40), st.integers(1, 1 << 60) | st.none())
def test_any_kernels_are_stored_as_sqlite_reads_them(
    tmp_path_factory: pytest.TempPathFactory, rows: list, start_ns: int | None
) -> None:
    folder = tmp_path_factory.mktemp("any")
    session = {"TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": start_ns}]} if start_ns else {}
    path = export(folder, {KERNELS: rows, "NVTX_EVENTS": [nvtx()], **session})
    lab = ingest_paths(folder, [path])
    con = sqlite3.connect(path)
    expected = con.execute(
        f"""select start + ?, end - start, globalPid >> 24 & 0xffffff, deviceId,
                   case when streamId not in (-1, 4294967295) then streamId end,
                   case when correlationId not in (0, -1, 4294967295) then correlationId end, value,
                   dense_rank() over (order by globalPid >> 24 & 0xffffff) - 1
            from {KERNELS} left join StringIds on id = demangledName""",
        [start_ns or 0],
    ).fetchall()
    con.close()
    columns = ("start_ns", "dur_ns", "pid", "device", "stream", "correlation", "name", "rank")
    stored = Counter(tuple(row[name] for name in columns) for row in lab.rows("kernels"))
    assert stored == Counter(expected)


def test_the_process_of_a_hostile_global_id_is_a_number(tmp_path: Path) -> None:
    lab = ingest_paths(tmp_path, [export(tmp_path, {KERNELS: [kernel(globalPid=-1), kernel(globalPid=GLOBAL_PID)]})])
    assert {row["pid"] for row in lab.rows("kernels")} == {0xFFFFFF, 4242}


def written_over(content: bytes, blocks: list[tuple[float, bytes]]) -> bytes:
    """The content with some bytes written over it, each at a share of its length; what begins the file stays."""
    broken = bytearray(content)
    for place, block in blocks:
        at = 4096 + int(place * (len(content) - 4096 - len(block)))
        broken[at : at + len(block)] = block
    return bytes(broken)


_BLOCKS = st.lists(st.tuples(st.floats(0, 0.999999), st.binary(min_size=64, max_size=64)), min_size=1, max_size=20)


@examples(40, suppress_health_check=list(HealthCheck))
@given(_BLOCKS)
@example([(0.8333398999715331, bytes(26) + b"\x85" + bytes(37))])  # the first id is larger than the last one
@example([(0.8333398999715331, bytes(26) + b"\x04" + bytes(37))])  # the first row has an id of a later one
@example([(0.8333398999715331, bytes(27) + b"\x03" + bytes(36))])  # two rows have one id
@example([(0.16200457239275048, bytes(21) + b"\4F\3\1\0\1" + bytes(37))])  # SQLite finds the damaged one by the id
def test_no_damage_costs_a_row_that_sqlite_reads_by_its_row_id(
    tmp_path_factory: pytest.TempPathFactory, whole: Path, blocks: list[tuple[float, bytes]]
) -> None:
    path = tmp_path_factory.mktemp("written_over") / "report.sqlite"
    path.write_bytes(written_over(whole.read_bytes(), blocks))
    try:
        export_of = sqlite_export.open_file(path)
    except SourceError:
        return
    for table in (KERNELS, COPIES, CALLS):
        found = list(iter_rows(export_of, table, {"start": "int"}, DiagnosticCounts(), "rows_lost"))
        kept = {start for rows in found for start in rows.column("start").to_pylist()}
        assert not {start for start in readable(path, table) - kept if not kept & same_id(path, table, start)}


def same_id(path: Path, table: str, start: int) -> set[int]:
    """Return the starts of the other rows that a scan finds with the id by which SQLite reads this one."""
    with contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)) as con:
        con.execute("pragma writable_schema = 1")
        scanned = []
        with contextlib.suppress(sqlite3.DatabaseError):
            scanned.extend(con.execute(f"select rowid, start from {table}"))
    ids = {row_id for row_id, other in scanned if other == start}
    return {other for row_id, other in scanned if row_id in ids} - {start}


def test_a_damaged_row_id_costs_that_row_only(tmp_path: Path) -> None:
    path = export(tmp_path, {CALLS: [call(10 * at, 10 * at + 3, correlationId=10_000 + at) for at in range(MANY)]})
    content = bytearray(path.read_bytes())
    times = (3000).to_bytes(2, "big") + (3003).to_bytes(2, "big")  # the columns start and end of row 301
    at = content.index(times) - 10  # before them: bytes of the row (1), its id (2), and its header of 7 columns
    assert content[at : at + 2] == bytes([0x80 | (301 >> 7), 301 & 0x7F])
    content[at : at + 2] = bytes([0xFF, 0x7F])  # 16,383: after the last one, where a range of row ids ends
    lab = damaged(tmp_path, bytes(content))
    starts = {row["start_ns"] for row in lab.rows("api_calls")}
    assert {10 * at for at in range(MANY)} - starts <= {3000}
    assert len(starts) >= MANY - 1
    assert (lab.file.status, "rows_lost" in lab.diagnostics(), lab.counts) == ("salvaged", True, (MANY, MANY - 1, 1))


def test_rows_that_the_last_page_does_not_count_make_the_file_incomplete(tmp_path: Path) -> None:
    content = bytearray(export(tmp_path, {CALLS: [call(at, at + 1) for at in range(MANY)]}).read_bytes())
    cells = len(content) - 4096 + 3  # after a page's type and its first free byte
    content[cells : cells + 2] = (int.from_bytes(content[cells : cells + 2], "big") - 5).to_bytes(2, "big")
    lab = damaged(tmp_path, bytes(content))
    assert (lab.file.status, len(lab.rows("api_calls"))) == ("salvaged", MANY - 5)
    assert "structure_damaged" in lab.diagnostics()
