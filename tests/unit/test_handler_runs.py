"""Files of torch.profiler's trace handler, named by host, process id and time, are runs named by their folder."""

from pathlib import Path

import pytest

from tests.traces import write_trace
from tracelab.ingest.pipeline import ingest

START_US = 1_700_000_000_000_000
CYCLE_US = 10**7


def handler_file(folder: Path, *, pid: int, cycle: int = 0, rank: int | None = None, host: str = "node1") -> Path:
    """A file as the handler writes it at the end of a cycle."""
    folder.mkdir(parents=True, exist_ok=True)
    first_us = START_US + cycle * CYCLE_US
    path = folder / f"{host}_{pid}.{first_us * 1000}.pt.trace.json"
    return write_trace(path, kernels=3 + cycle + pid, rank=rank, first_us=first_us)


def ingested_runs(*paths: Path, store: Path) -> dict[str, str | None]:
    return {result.path.name: result.run for result in ingest(list(paths), store).files}


def test_a_single_file_is_a_run_named_by_its_folder(tmp_path: Path) -> None:
    file = handler_file(tmp_path / "log" / "resnet18", pid=77)
    assert ingested_runs(file, store=tmp_path / "lab") == {file.name: "resnet18"}


def test_cycles_of_a_process_are_sources_of_one_run(tmp_path: Path) -> None:
    for cycle in range(3):
        handler_file(tmp_path / "resnet18", pid=77, cycle=cycle)
    runs = ingested_runs(tmp_path / "resnet18", store=tmp_path / "lab")
    assert (len(runs), set(runs.values())) == (3, {"resnet18"})


def test_ranks_and_cycles_of_one_job_are_one_run(tmp_path: Path) -> None:
    for cycle in range(2):
        for rank in range(2):
            handler_file(tmp_path / "resnet18", pid=70 + rank, rank=rank, cycle=cycle)
    runs = ingested_runs(tmp_path / "resnet18", store=tmp_path / "lab")
    assert (len(runs), set(runs.values())) == (4, {"resnet18"})


def test_a_later_cycle_joins_the_run_of_its_process(tmp_path: Path) -> None:
    store = tmp_path / "lab"
    handler_file(tmp_path / "resnet18", pid=77)
    ingested_runs(tmp_path / "resnet18", store=store)
    later = handler_file(tmp_path / "resnet18", pid=77, cycle=1)
    assert ingested_runs(tmp_path / "resnet18", store=store)[later.name] == "resnet18"


def test_two_executions_in_one_folder_are_numbered_runs(tmp_path: Path) -> None:
    files = [handler_file(tmp_path / "resnet18", pid=pid, rank=0, cycle=cycle) for cycle, pid in enumerate((70, 90))]
    runs = ingested_runs(tmp_path / "resnet18", store=tmp_path / "lab")
    assert [runs[file.name] for file in files] == ["resnet18-1", "resnet18-2"]


def test_folders_of_one_name_are_distinguished_by_their_parents(tmp_path: Path) -> None:
    for pid, model in enumerate(("a", "b")):
        handler_file(tmp_path / model / "log", pid=pid)
    assert set(ingested_runs(tmp_path, store=tmp_path / "lab").values()) == {"a-log", "b-log"}


@pytest.mark.parametrize(
    "name", ["worker0.1694128201545.pt.trace.json", "worker0.pt.trace.json", "rank_3.1694128201545.pt.trace.json"]
)
def test_a_file_whose_name_is_only_a_rank_is_a_run_named_by_its_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "baseline").mkdir()
    file = write_trace(tmp_path / "baseline" / name, kernels=3)
    assert ingested_runs(file, store=tmp_path / "lab") == {name: "baseline"}


def test_two_recordings_of_a_rank_in_one_folder_stay_apart(tmp_path: Path) -> None:
    (tmp_path / "baseline").mkdir()
    for at in range(2):
        name = f"worker0.{START_US + at * CYCLE_US}.pt.trace.json"
        write_trace(tmp_path / "baseline" / name, kernels=3 + at, rank=0, first_us=START_US + at * CYCLE_US)
    runs = ingested_runs(tmp_path / "baseline", store=tmp_path / "lab")
    assert list(runs.values()) == ["baseline-1", "baseline-2"]


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("trace.pt.trace.json", "trace"),
        ("node1_77.pt.trace.json", "node1_77"),
        ("worker0_step_12.1694128201545.pt.trace.json", "worker0_step_12.1694128201545"),
        ("graph_capture_rank_0.1773709679453551615.pt.trace.json", "graph_capture_rank_0.1773709679453551615"),
    ],
)
def test_other_files_name_their_run_themselves(tmp_path: Path, name: str, run: str) -> None:
    (tmp_path / "in").mkdir()
    file = write_trace(tmp_path / "in" / name, kernels=3)
    assert ingested_runs(file, store=tmp_path / "lab") == {name: run}
