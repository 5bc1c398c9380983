"""An ingest matches the ranks of a large new run, so that queries need not."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from tracelab.cli import main
from tracelab.client import Lab
from tracelab.errors import TracelabError
from tracelab.ingest import pipeline
from tracelab.store import commit_log, matching, shared_relations

RANKS = sorted((Path(__file__).parents[2] / "data" / "generated" / "generated-4rank-ddp").glob("rank*.json.gz"))


@pytest.fixture(autouse=True)
def _small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_LEAST_MATCHED_KERNELS", 1)
    monkeypatch.setattr(shared_relations, "LEAST_KEPT_ROWS", 1)
    monkeypatch.setattr(commit_log, "SMALL_BYTES", 0)


def answer(store: Path, name: str) -> list[dict[str, object]]:
    """Return the rows of a query."""
    return Lab(store).query(name).to_pylist()


def test_the_limit_of_kernels_is_that_of_kept_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert pipeline._LEAST_MATCHED_KERNELS == shared_relations.LEAST_KEPT_ROWS


def test_queries_compute_no_relation_that_the_ingest_has_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = pipeline.ingest(RANKS, tmp_path / "matched", run="job")
    assert report.matched_runs == ("job",)
    assert pipeline.ingest(RANKS, tmp_path / "later", run="job", match=False).matched_runs == ()
    questions = ("stragglers", "straggler_causes", "critical_path_rows")
    later = {name: answer(tmp_path / "later", name) for name in questions}

    def compute(*args: object) -> None:
        raise AssertionError(args)

    monkeypatch.setattr(shared_relations, "_compute", compute)
    monkeypatch.setattr("tracelab.paths.packing.build_graph", compute)
    assert {name: answer(tmp_path / "matched", name) for name in questions} == later


def test_ranks_that_come_in_a_later_call_are_left_to_the_first_query(tmp_path: Path) -> None:
    assert pipeline.ingest(RANKS[:2], tmp_path, run="job").matched_runs == ("job",)
    assert pipeline.ingest(RANKS[2:], tmp_path, run="job").matched_runs == ()
    assert len(answer(tmp_path, "stragglers")) == len(RANKS)


def test_a_run_that_cannot_be_matched_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> bool:
        raise TracelabError("over the memory limit")

    monkeypatch.setattr(matching, "match_ranks", refuse)
    report = pipeline.ingest(RANKS, tmp_path, run="job")
    assert (report.exit_code, report.matched_runs) == (0, ())
    assert len(answer(tmp_path, "stragglers")) == len(RANKS)


def test_ctrl_c_while_ranks_are_matched_says_that_the_files_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*args: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(matching, "match_ranks", stop)
    with pytest.raises(pipeline.StoppedError, match="all files are stored"):
        pipeline.ingest(RANKS, tmp_path, run="job")
    assert len(answer(tmp_path, "stragglers")) == len(RANKS)


def test_the_command_says_so_unless_asked_not_to(tmp_path: Path) -> None:
    def lines(folder: str, *options: str) -> list[str]:
        command = ["ingest", *map(str, RANKS), "--run", "job", "--store", str(tmp_path / folder), *options]
        return CliRunner().invoke(main, command).stderr.splitlines()

    matched = "  matched the ranks, for queries across ranks"
    assert matched in lines("matched")
    assert matched not in lines("later", "--no-match")
