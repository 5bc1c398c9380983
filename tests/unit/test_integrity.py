"""A store knows its files: a missing, truncated or altered one is noticed, and ingest stores its trace again."""

import random
import resource
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.build import build_store, file_of, source_id
from tests.traces import write_trace
from tracelab import doctor
from tracelab.cli import main
from tracelab.client import Lab
from tracelab.errors import StoreError
from tracelab.ingest.pipeline import ingest
from tracelab.store import commit_log, session
from tracelab.store.commit import Store, fold_commits
from tracelab.store.files import LocalFiles
from tracelab.store.integrity import StoreChangedError, explain_read_errors, repeat_if_changed
from tracelab.store.verification import DamagedStoreError, FileProblem, check_part

KERNEL = {"name": "k", "device": 0, "start_ns": 5, "dur_ns": 10}
FLIPS = 100


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of two traces, a.json with 3 kernels and b.json with 4."""
    for kernels, name in ((3, "a"), (4, "b")):
        ingest([write_trace(tmp_path / f"{name}.json", kernels=kernels)], tmp_path / "lab")
    return tmp_path / "lab"


def problems_of(store: Path, run: str = "a", *, hashes: bool = True) -> tuple[FileProblem, ...]:
    """Check the files of the one part of a run."""
    snapshot = commit_log.read_snapshot(LocalFiles(store))
    (part,) = (part for part in snapshot.parts.values() if part.run == run)
    return check_part(store, snapshot, part, hashes=hashes).problems


def count_kernels(store: Path) -> int:
    ((count,),) = (
        session.connect(store, referenced="kernels sources").execute("select count(*) from kernels").fetchall()
    )
    return int(count)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip_bit(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


DAMAGE: dict[str, Callable[[Path], object]] = {"missing": Path.unlink, "damaged": cut_short}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("table", ["kernels", "diagnostics"])
def test_a_missing_or_truncated_file_is_noticed_at_opening(store: Path, table: str, damage: str) -> None:
    """Also in a query of other tables: none of its figures can be compared with those of a run that lacks rows."""
    path = file_of(store, table, "a")
    DAMAGE[damage](path)
    lab, trace = Lab(store), store.parent / "a.json"
    for read in (lambda: lab.query("kernel_summary"), lambda: lab.sql("from runs"), lambda: session.init_sql(store)):
        with pytest.raises(DamagedStoreError) as raised:
            read()
        assert str(raised.value).startswith(f"{path} is {damage}")
        assert str(raised.value).endswith(f"; ingest its trace again: `tracelab ingest {trace} --store {store}`")
        assert raised.value.exit_code == 1


def test_a_folder_that_is_gone_is_noticed(store: Path) -> None:
    path = file_of(store, "kernels", "a")
    path.unlink()
    path.parent.rmdir()
    with pytest.raises(DamagedStoreError, match="is missing"):
        Lab(store).query("kernel_summary")


def test_several_damaged_files_are_counted(store: Path) -> None:
    for run in ("a", "b"):
        file_of(store, "kernels", run).unlink()
    with pytest.raises(DamagedStoreError, match=r"is missing, and 1 more files are missing or damaged"):
        session.connect(store, referenced="kernels sources")


def test_a_file_of_a_trace_in_two_runs_is_repaired_in_its_run(store: Path) -> None:
    trace = store.parent / "a.json"
    ingest([trace], store, run="again")
    file_of(store, "kernels", "again").unlink()
    with pytest.raises(DamagedStoreError, match=f"tracelab ingest {trace} --store {store} --run again"):
        session.connect(store, referenced="kernels sources")
    ingest([trace], store, run="again")
    assert count_kernels(store) == 3 + 4 + 3


@pytest.mark.parametrize("damage", [*DAMAGE.values(), lambda path: flip_bit(path, 500)], ids=["gone", "cut", "flipped"])
@pytest.mark.parametrize("table", ["kernels", "sources"])
def test_ingest_repairs(store: Path, table: str, damage: Callable[[Path], object]) -> None:
    path = file_of(store, table, "a")
    damage(path)
    for expected in ("stored", "unchanged"):
        (result,) = ingest([store.parent / "a.json"], store).files
        assert (result.status, result.run) == (expected, "a")
        assert [str(path) in problem for problem in result.repaired] == [True] * (expected == "stored")
    assert count_kernels(store) == 7
    assert not doctor.verify(store, None)[0].num_rows


def test_ingest_of_another_trace_leaves_the_damage(store: Path) -> None:
    cut_short(file_of(store, "sources", "a"))
    cut_short(file_of(store, "kernels", "b"))
    ingest([write_trace(store.parent / "c.json", kernels=5)], store)
    findings = doctor.examine_store(store, None).to_pylist()
    assert [row["run"] for row in findings] == ["a", "b", None]
    ingest([store.parent / "a.json"], store)
    assert [row["run"] for row in doctor.examine_store(store, None).to_pylist()] == ["b", None]


def test_a_rank_whose_row_is_damaged_stays_in_its_run(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    traces = [write_trace(tmp_path / "job" / f"rank{rank}.json", kernels=3 + rank, rank=rank) for rank in range(2)]
    ingest(traces, tmp_path / "lab")
    (row, _) = sorted((tmp_path / "lab/sources/run=job").iterdir())
    cut_short(row)
    for trace in traces:
        assert ingest([trace], tmp_path / "lab").files[0].run == "job"
    assert count_kernels(tmp_path / "lab") == 7


def test_repair_is_reported(store: Path) -> None:
    path = file_of(store, "kernels", "a")
    path.unlink()
    command = ["ingest", str(store.parent / "a.json"), "--store", str(store)]
    lines = [CliRunner().invoke(main, command).stderr for _ in range(2)]
    assert f"  repaired: {path} is missing; stored a.json again\n" in lines[0]
    assert "a: already in the store" in lines[1]


def test_single_flipped_bits_are_noticed(store: Path) -> None:
    random_bits = random.Random(1)
    for table in ("kernels", "sources"):
        path = file_of(store, table, "a")
        healthy = path.read_bytes()
        for bit in random_bits.sample(range(8 * len(healthy)), FLIPS):
            flip_bit(path, bit)
            (problem,) = problems_of(store)
            assert problem.path == path, bit
            path.write_bytes(healthy)
    assert not doctor.verify(store, None)[0].num_rows


def test_a_file_that_no_source_committed_is_ignored(store: Path) -> None:
    path = file_of(store, "kernels", "a")
    (path.parent / f"{source_id('extra')}.parquet").write_bytes(path.read_bytes())
    assert count_kernels(store) == 7
    assert not doctor.verify(store, None)[0].num_rows


def test_a_source_that_is_replaced_meanwhile_is_not_damaged(tmp_path: Path) -> None:
    """`build_store` replaces the source again and again, while this thread checks it."""
    done = threading.Event()
    store = build_store(tmp_path / "lab", {"kernels": [KERNEL], "ops": [{"run": "other", "source": "b"}]})

    def replace() -> None:
        while not done.is_set():
            build_store(store, {"kernels": [KERNEL]})

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(100):
            assert not problems_of(store, "r")
    finally:
        done.set()
        thread.join()


def verified(store: Path) -> list[str]:
    return [row["message"] for row in doctor.verify(store, None)[0].to_pylist()]


def be_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def dangle(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


LOST_ROWS: dict[str, tuple[Callable[[Path], object], str]] = {
    "gone": (Path.unlink, "is missing"),
    "all_gone": (lambda path: shutil.rmtree(path.parents[1]), "is missing"),
    "dangling_link": (dangle, "is missing"),
    "folder": (be_a_folder, "is damaged (it is not a file)"),
}


@pytest.mark.parametrize("loss", LOST_ROWS)
def test_a_lost_row_is_noticed_and_costs_no_table(store: Path, loss: str) -> None:
    row, kernels, trace = file_of(store, "sources", "a"), file_of(store, "kernels", "a"), store.parent / "a.json"
    damage, problem = LOST_ROWS[loss]
    damage(row)
    with pytest.raises(DamagedStoreError) as raised:
        session.connect(store, referenced="kernels sources")
    assert f"{row} {problem}" in str(raised.value)
    assert f"{row} {problem}." in verified(store)
    assert problems_of(store)[0].trace == str(trace)
    ingest([write_trace(store.parent / "c.json", kernels=5)], store)
    assert kernels.is_file()
    ingest([trace, store.parent / "b.json"], store)
    assert count_kernels(store) == 3 + 4 + 5
    assert verified(store) == []


@pytest.mark.parametrize(("damage", "problem"), [(Path.unlink, "is missing"), (cut_short, "is damaged (its SHA-256")])
def test_a_lost_commit_is_noticed_and_mended_by_its_trace(
    store: Path, damage: Callable[[Path], object], problem: str
) -> None:
    """Of the two commits of an ingest, one reserves the run's name; the second is that of the trace a.json."""
    trace = store.parent / "a.json"
    damage(store / "commits/0000000002.json")
    with pytest.raises(DamagedStoreError) as raised:
        session.connect(store, referenced="kernels sources")
    assert f"0000000002.json {problem}" in str(raised.value)
    assert f"tracelab ingest {trace} --store" in str(raised.value)
    assert any(f"0000000002.json {problem}" in message for message in verified(store))
    ingest([store.parent / "b.json"], store)
    assert len(verified(store)) == 1
    (result,) = ingest([trace], store).files
    assert (result.status, result.run) == ("stored", "a")
    assert count_kernels(store) == 3 + 4
    assert verified(store) == []


def test_a_damaged_checkpoint_costs_nothing(store: Path) -> None:
    """The checkpoint before it and the commits since are still there."""
    opened = Store(store)
    with opened.staging_folder() as staging:
        fold_commits(opened.files, staging, opened.snapshot(), most=1)
    assert count_kernels(store) == 7
    (state,) = store.glob("commits/*.state.json")
    flip_bit(state, 4000)
    assert count_kernels(store) == 7


def test_sources_come_from_the_checkpoint_and_the_files_since(store: Path) -> None:
    opened = Store(store)
    with opened.staging_folder() as staging:
        fold_commits(opened.files, staging, opened.snapshot(), most=1)
    ingest([store.parent / "a.json"], store, replace=True)
    ingest([write_trace(store.parent / "c.json", kernels=5)], store)
    rows = Lab(store).sql("select run, path from sources order by run").arrow().to_pylist()
    assert rows == [{"run": run, "path": str(store.parent / f"{run}.json")} for run in ("a", "b", "c")]


def test_a_query_is_repeated_where_its_files_were_replaced_meanwhile(store: Path) -> None:
    trace, counts = store.parent / "a.json", []

    def count() -> int:
        with session.connect(store, referenced="kernels sources") as con, explain_read_errors(store):
            if not counts:
                ingest([trace], store, replace=True)
            counts.append(1)
            return int(con.execute("select count(dur_ns) from kernels").fetchall()[0][0])

    with pytest.raises(StoreChangedError, match="files were replaced while they were read; run the command again"):
        count()
    counts.clear()
    assert (repeat_if_changed(count), len(counts)) == (7, 2)


def test_an_added_file_is_noticed_and_removed(store: Path) -> None:
    row = file_of(store, "sources", "a")
    added = store / "memory_events" / row.parent.name / row.name
    added.parent.mkdir(parents=True)
    added.write_bytes(file_of(store, "kernels", "b").read_bytes())
    assert count_kernels(store) == 7  # which reads what the log lists
    assert verified(store) == [f"{added} is unexpected (no ingest wrote it)."]
    ingest([store.parent / "a.json"], store)
    assert not added.exists()
    assert verified(store) == []


def test_a_folder_in_place_of_a_table_is_noticed_and_replaced(store: Path) -> None:
    be_a_folder(path := file_of(store, "kernels", "a"))
    with pytest.raises(DamagedStoreError, match="is damaged"):
        session.connect(store, referenced="kernels sources")
    assert verified(store) == [f"{path} is damaged (it is not a file)."]
    ingest([store.parent / "a.json"], store)
    assert count_kernels(store) == 7


def test_swapped_files_are_noticed_and_repaired(store: Path) -> None:
    rows = [file_of(store, "sources", run) for run in ("a", "b")]
    contents = [row.read_bytes() for row in rows]
    for row, content in zip(rows, reversed(contents), strict=True):
        row.write_bytes(content)
    for run, row in zip(("a", "b"), rows, strict=True):
        (problem,) = problems_of(store, run)
        assert (problem.path, problem.trace) == (row, str(store.parent / f"{run}.json"))
        ingest([store.parent / f"{run}.json"], store)
    assert count_kernels(store) == 7
    assert verified(store) == []


def test_a_full_disk_keeps_the_source_that_was_to_be_replaced(store: Path) -> None:
    """A limit on the size of files stops writing as a full disk does."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, limits[1]))
    try:
        with pytest.raises(StoreError) as raised:
            ingest([store.parent / "a.json"], store, replace=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(raised.value) == (
        f"{store}: a file reached the file size limit; raise it (ulimit -f) and ingest again; stored files stay"
    )
    assert count_kernels(store) == 7
    assert list((store / ".staging").iterdir()) == []


@pytest.mark.usefixtures("modes_bind")
def test_a_replacement_without_permission_keeps_the_source(store: Path) -> None:
    folder = store / "kernels" / "run=a"
    folder.chmod(0o500)
    try:
        with pytest.raises(StoreError, match=r"cannot be used as a store \(.*run=a.*Permission denied\)"):
            ingest([store.parent / "a.json"], store, replace=True)
    finally:
        folder.chmod(0o755)
    assert count_kernels(store) == 7


@pytest.mark.usefixtures("modes_bind")
def test_a_store_folder_without_permission_is_named(store: Path) -> None:
    folder = store / "kernels"
    folder.chmod(0o500)
    try:
        with pytest.raises(StoreError, match=r"cannot be used as a store \(.*kernels.*Permission denied\)"):
            ingest([write_trace(store.parent / "c.json", kernels=5)], store)
    finally:
        folder.chmod(0o755)
