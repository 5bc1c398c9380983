"""Sessions in which the times of all ranks are on one clock: their views move times, and the files stay as they are."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tracelab
from tests.build import build_store
from tests.ranks import kernel, note
from tests.report.few_queries import report_of
from tracelab import export, plot
from tracelab.cli import main
from tracelab.client import Lab
from tracelab.query import library
from tracelab.store.alignment import measure

MS = 1_000_000


def job(
    clocks_ns: tuple[int, ...], *, drift: float = 0.0, spacing_ns: int = MS, formats: str = "kineto"
) -> dict[str, Any]:
    """Six all-reduces, each rank a kernel before it; rank 2 and later are alone in their group of one."""
    kernels, notes = [], []
    for rank, clock in enumerate(clocks_ns):
        for at in range(6):
            start = spacing_ns * at + clock + round(drift * rank * spacing_ns * at)
            here = {"source": f"s{rank}", "device": rank, "pid": 10 + rank}
            kernels.append(kernel(rank, start, start + 400_000, name="gemm", correlation=100 + at, **here))
            row = kernel(rank, start + 400_000, start + 500_000, correlation=at, stream=8, **here)
            kernels.append(row)
            group = {"group_ranks": [0, 1]} if rank < 2 else {"group_ranks": [rank]}
            notes.append(
                note(row, at, len(group["group_ranks"])) | group | {"source": row["source"], "pid": row["pid"]}
            )
    clock_kind = "session" if formats == "nsys" else "unix"
    sources = [{"source": f"s{rank}", "format": formats, "clock": clock_kind} for rank in range(len(clocks_ns))]
    return {"kernels": kernels, "collectives": notes, "sources": sources}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_store(tmp_path_factory.mktemp("aligned") / "lab", job((0, 300 * MS)))


def starts(lab: Lab) -> list[tuple[int, int]]:
    rows = lab.sql("select rank, start_ns, end_ns from kernels where name = 'gemm' order by rank, start_ns").to_pylist()
    return [(row["rank"], row["start_ns"]) for row in rows[::6]]


def test_times_move_to_the_clock_of_the_lowest_rank_and_files_do_not_change(store: Path) -> None:
    files = {path: path.read_bytes() for path in store.rglob("*.parquet")}
    assert starts(Lab(store)) == [(0, 0), (1, 300 * MS)]
    assert starts(Lab(store, aligned=True)) == [(0, 0), (1, 0)]
    assert {path: path.read_bytes() for path in store.rglob("*.parquet")} == files


def test_a_store_opens_with_its_ranks_on_one_clock(store: Path) -> None:
    starts = "select rank, min(start_ns) as start_ns from kernels group by rank order by rank"
    assert (
        tracelab.open(store, aligned=True).sql(starts).to_pylist() == Lab(store, aligned=True).sql(starts).to_pylist()
    )
    assert tracelab.open(store, aligned=True).sql(starts).to_pylist() != tracelab.open(store).sql(starts).to_pylist()


def test_durations_and_ends_move_along(store: Path) -> None:
    (row,) = (
        Lab(store, aligned=True)
        .sql("select distinct dur_ns, end_ns - start_ns as length from kernels where name = 'gemm'")
        .to_pylist()
    )
    assert row == {"dur_ns": 400_000, "length": 400_000}


def test_clocks_of_an_aligned_session_agree(store: Path) -> None:
    answer = Lab(store, aligned=True).query("clock_offsets").to_pylist()
    assert [(row["offset_ns"], row["verdict"]) for row in answer] == [(0, "same_clock")] * 2


def test_a_timeline_shows_both_ranks_in_the_same_bins(store: Path) -> None:
    def covered(lab: Lab) -> dict[int, list[int]]:
        rows = lab.query("timeline", bins=2).to_pylist()
        return {rank: [row["compute_ns"] for row in rows if row["rank"] == rank] for rank in (0, 1)}

    assert covered(Lab(store)) == {0: [2_400_000, 0], 1: [0, 2_400_000]}
    assert covered(Lab(store, aligned=True)) == {0: [1_200_000] * 2, 1: [1_200_000] * 2}


def test_reports_of_nsight_systems_share_an_axis_once_they_are_aligned(tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", job((0, 300 * MS), formats="nsys"))
    spans = [
        max(row["at_ns"] + row["bin_ns"] for row in Lab(store, aligned=aligned).query("timeline", bins=4).to_pylist())
        for aligned in (False, True)
    ]
    assert spans == [11 * MS, 5_500_000]
    assert {row["clock"] for row in Lab(store, aligned=True).sql("select clock from sources").to_pylist()} == {
        "aligned"
    }


def test_drift_is_applied_to_each_time(tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", job((0, 300 * MS), drift=20e-6, spacing_ns=4 * 10**9))
    lab = Lab(store, aligned=True)
    rows = lab.sql("select start_ns from kernels where name = 'gemm' order by start_ns").to_pylist()
    firsts, seconds = [row["start_ns"] for row in rows[::2]], [row["start_ns"] for row in rows[1::2]]
    assert max(abs(one - other) for one, other in zip(firsts, seconds, strict=True)) <= 20


def test_a_rank_that_nothing_aligns_keeps_its_times_and_is_named(tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", job((0, 300 * MS, 700 * MS)))
    alignment = measure(store)
    assert starts(Lab(store, aligned=alignment)) == [(0, 0), (1, 0), (2, 700 * MS)]
    assert alignment.notes == [
        "Aligned: rank 1 of r is on the clock of rank 0, moved by -300.0 ms; "
        "rank 2 is not aligned, so compare no times with theirs."
    ]


def test_recordings_of_one_clock_are_not_touched(tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", job((0, 0)))
    alignment = measure(store)
    assert alignment.notes == ["Aligned: no rank of r had to be moved to the clock of rank 0."]
    assert starts(Lab(store, aligned=alignment)) == [(0, 0), (1, 0)]


def test_without_collectives_nothing_is_aligned(tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", {"kernels": [kernel(0, 0, 5, name="gemm")]})
    assert measure(store).notes == ["Not aligned: no collective of several ranks was recorded."]


def test_the_macro_aligns_the_rows_of_a_query(store: Path) -> None:
    text = """
        with mine as (select * from kernels where name = 'gemm')
        select rank, min(start_ns) as at_ns, bool_and(is_aligned) as is_aligned
        from on_one_clock('mine')
        group by rank
        order by rank"""
    assert Lab(store).sql(text).to_pylist() == [{"rank": rank, "at_ns": 0, "is_aligned": True} for rank in (0, 1)]


def test_the_command_notes_what_was_aligned(store: Path) -> None:
    result = CliRunner().invoke(main, ["query", "timeline", "--bins", "1", "--aligned", "--store", str(store)])
    assert result.stderr == "Aligned: rank 1 of r is on the clock of rank 0, moved by -300.0 ms.\n"
    result = CliRunner().invoke(
        main, ["sql", "--aligned", "--store", str(store), "select max(start_ns) as last_ns from kernels"]
    )
    assert (result.stdout, result.stderr[:13]) == ("last_ns\n5400000\n", "Aligned: rank")


def test_a_picture_has_the_note_below_its_title(store: Path) -> None:
    alignment = measure(store)
    query = library.find("timeline", None)
    table = Lab(store, aligned=alignment).run_query(query, {"bins": 2})
    drawing = plot.picture(table, query, alignment.notes).figure
    assert drawing.get_suptitle().splitlines()[-1] == alignment.notes[0]
    longer = plot.picture(table, query, ["moved " * 40]).figure.get_suptitle().splitlines()
    assert max(map(len, longer[-3:])) <= 90


def test_an_export_has_all_ranks_on_one_clock_and_records_it(store: Path) -> None:
    stream = io.BytesIO()
    done = export.write(store, export.Request(aligned=True), stream)
    trace = json.loads(stream.getvalue())
    gemms = [event["ts"] for event in trace["traceEvents"] if event.get("name") == "gemm"]
    assert sorted(map(float, gemms)) == sorted(1000.0 * at for at in range(6) for _ in (0, 1))
    shift = trace["tracelab"]["aligned"][1]
    assert (shift["rank"], shift["reference_rank"], shift["offset_ns"], shift["verdict"]) == (
        1,
        0,
        -300 * MS,
        "aligned",
    )
    assert done.notes[0].startswith("Aligned: rank 1 of r")
    assert len(trace["tracelab"]["clocks"]) == 1


def test_a_report_notes_the_alignment_and_its_commands_repeat_it(store: Path) -> None:
    page = report_of(("gpu_breakdown",), store, aligned=True)
    assert "Aligned: rank 1 of r is on the clock of rank 0, moved by -300.0 ms." in page
    assert f"tracelab query gpu_breakdown --format csv --aligned --store {store}" in page
