"""Whose a Kineto file is: its rank, its devices, and the run it belongs to."""

from pathlib import Path

import pytest

from tests.readers.small import Lab, Row, given, ingest_bytes, ingest_paths, kernel, op, trace

# ----------------------------------------------------------------------------------------------------- rank and devices


def ranked(tmp_path: Path, name: str = "trace.json", **top: object) -> Lab:
    return ingest_bytes(tmp_path, trace(kernel(), op(), **top), name)


def codes(lab: Lab) -> set[object]:
    return {row["code"] for row in lab.rows("diagnostics")}


@pytest.mark.parametrize(
    ("name", "job", "rank"),
    [
        ("trace.json", {"backend": "nccl", "rank": 3, "world_size": 8}, 3),
        ("rank-9.json", {"rank": 3}, 3),
        ("rank-0.Apr_03_18_51_38.1102.pt.trace.json", None, 0),
        ("rank-12.Apr_03.pt.trace.json", None, 12),
        ("rank7.json", None, 7),
        ("trace_rank5.json.gz", None, 5),
        ("mtia_inference_rank_2.json", None, 2),
        ("rank-3.json", {"backend": "nccl"}, 3),
        ("rank-3.json", {"rank": None}, 3),
        ("rank-3.json", {"rank": -1}, 3),
    ],
)
def test_rank_is_the_files_else_its_names(tmp_path: Path, name: str, job: Row | None, rank: int) -> None:
    lab = ranked(tmp_path, name, **({} if job is None else {"distributedInfo": job}))
    assert (lab.one("kernels")["rank"], lab.one("ops")["rank"]) == (rank, rank)
    assert "rank_assumed" not in codes(lab)


@pytest.mark.parametrize("name", ["trace.json", "rank_non_gpu.json", "ranking.json", "step-7.json", "2024.json"])
def test_a_missing_rank_is_zero_and_reported_as_assumed(tmp_path: Path, name: str) -> None:
    lab = ranked(tmp_path, name)
    assert lab.one("kernels")["rank"] == 0
    assert "rank_assumed" in codes(lab)


def test_device_of_the_files_list(tmp_path: Path) -> None:
    card = {
        "id": 1,
        "name": "NVIDIA H100 80GB HBM3",
        "totalGlobalMem": 85018279936,
        "computeMajor": 9,
        "computeMinor": 0,
        "maxThreadsPerBlock": 1024,
        "maxThreadsPerMultiprocessor": 2048,
        "warpSize": 32,
        "numSms": 132,
    }
    lab = ranked(tmp_path, deviceProperties=[card], distributedInfo={"rank": 4}, host_name="node7")
    expected = {
        "rank": 4,
        "device": 1,
        "host": "node7",
        "name": "NVIDIA H100 80GB HBM3",
        "compute_capability": "9.0",
        "sm_count": 132,
        "memory_bytes": 85018279936,
        "max_threads_per_sm": 2048,
        "uuid": None,
        "spec_bandwidth_gb_per_s": None,
        "spec_clock_hz": None,
    }
    assert given(lab.one("devices"), expected) == expected


def test_device_that_knows_little(tmp_path: Path) -> None:
    lab = ranked(tmp_path, deviceProperties=[{"id": 17, "name": ""}])
    expected = {"device": 17, "name": None, "compute_capability": None, "sm_count": None, "memory_bytes": None}
    assert given(lab.one("devices"), expected) == expected


def test_every_listed_device_is_a_row(tmp_path: Path) -> None:
    lab = ranked(tmp_path, deviceProperties=[{"id": index, "name": "GPU"} for index in range(8)])
    assert [row["device"] for row in lab.rows("devices")] == list(range(8))


# ----------------------------------------------------------------------------------------------------- files of one run


def files(tmp_path: Path, **ranks: tuple[int, int, int]) -> list[Path]:
    """Files by name: rank, world size, and when their only kernel runs, in µs."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name, (rank, world, ts) in ranks.items():
        text = trace(kernel(ts=ts, dur=100), op(ts=ts - 10), distributedInfo={"rank": rank, "world_size": world})
        (folder / f"{name}.json").write_text(text)
    return [folder]


START = 1_712_195_495_534_302


def runs(lab: Lab) -> dict[str, str]:
    return {Path(result.path).stem: result.run for result in lab.report.files}


def test_ranks_of_one_folder_are_one_run(tmp_path: Path) -> None:
    lab = ingest_paths(tmp_path, files(tmp_path, a=(0, 2, START), b=(1, 2, START + 50)), run=None)
    assert len(set(runs(lab).values())) == 1


@pytest.mark.parametrize(
    "other",
    [(0, 2, START + 50), (1, 4, START + 50), (1, 2, START + 9_000_000)],
    ids=["same rank", "another world size", "another time"],
)
def test_files_that_are_no_ranks_of_one_run_are_runs_of_their_own(tmp_path: Path, other: tuple[int, int, int]) -> None:
    lab = ingest_paths(tmp_path, files(tmp_path, a=(0, 2, START), b=other), run=None)
    assert len(set(runs(lab).values())) == 2


HOUR_US = 3_600_000_000


def hosted(tmp_path: Path, *ranks: tuple[int, int, str | None]) -> list[Path]:
    """Files rank<N>.json: world size, when their only kernel runs, in µs, and the host."""
    folder = tmp_path / "in"
    folder.mkdir()
    for rank, (world, ts, host) in enumerate(ranks):
        keys = {"distributedInfo": {"rank": rank, "world_size": world}} | ({"host_name": host} if host else {})
        (folder / f"rank{rank}.json").write_text(trace(kernel(ts=ts, dur=100), op(ts=ts - 10), **keys))
    return [folder]


@pytest.mark.parametrize("hosts", [("a", "b", "b"), (None, None, None)], ids=["two hosts", "unknown hosts"])
@pytest.mark.parametrize("apart_us", [500_000, 5 * HOUR_US])
def test_each_rank_of_a_job_once_is_one_run_whatever_the_clocks_of_its_hosts_are(
    tmp_path: Path, apart_us: int, hosts: tuple[str | None, ...]
) -> None:
    ranks = [(3, START + at, host) for at, host in zip((0, apart_us, apart_us + 50), hosts, strict=True)]
    assert len(set(runs(ingest_paths(tmp_path, hosted(tmp_path, *ranks), run=None)).values())) == 1


@pytest.mark.parametrize(
    ("world", "hosts"), [(2, ("a", "a")), (3, ("a", "b"))], ids=["one clock", "a rank of the job is missing"]
)
def test_ranks_at_another_time_by_one_clock_or_of_part_of_a_job_are_runs_of_their_own(
    tmp_path: Path, world: int, hosts: tuple[str, str]
) -> None:
    ranks = [(world, START + HOUR_US * rank, host) for rank, host in enumerate(hosts)]
    assert len(set(runs(ingest_paths(tmp_path, hosted(tmp_path, *ranks), run=None)).values())) == 2


SECOND_RECORDINGS = {
    "later": {"again3": (3, 4, START + 40)},
    "first": {"again3": (3, 4, START - 40)},
    "between": {"again3": (3, 4, START + 15)},
    "nearly at the same time": {"again3": (3, 4, START + 29)},
    "behind the others in the alphabet": {"z3": (3, 4, START + 5)},
    "of two ranks": {"again3": (3, 4, START - 40), "again2": (2, 4, START - 30)},
}
RANKS = {f"rank{rank}": (rank, 4, START + 10 * rank) for rank in range(4)}


@pytest.mark.parametrize("second", SECOND_RECORDINGS.values(), ids=SECOND_RECORDINGS)
def test_a_rank_recorded_twice_leaves_the_job_one_run(tmp_path: Path, second: dict[str, tuple[int, int, int]]) -> None:
    lab = ingest_paths(tmp_path, files(tmp_path, **RANKS | second), run=None)
    of_job = {runs(lab)[name] for name in RANKS}
    assert len(of_job) == 1
    assert {runs(lab)[name] for name in second}.isdisjoint(of_job)
    assert len({runs(lab)[name] for name in second}) == 1
    messages = [row["message"] for row in lab.rows("diagnostics") if row["code"] == "rank_recorded_again"]
    (job,) = of_job
    assert sorted(messages) == sorted(
        f"rank{rank}.json of run {job} holds another recording of this rank at the same time; this one is a run of "
        "its own."
        for rank, _, _ in second.values()
    )


def test_a_short_recording_of_a_rank_before_the_others_leaves_the_job_one_run(tmp_path: Path) -> None:
    ranks = {"again3": (3, 4, START - 80), "rank0": (0, 4, START - 60)}
    ranks |= {f"rank{rank}": (rank, 4, START + 30 + rank) for rank in (1, 2, 3)}
    lab = ingest_paths(tmp_path, files(tmp_path, **ranks), run=None)
    assert len({runs(lab)[f"rank{rank}"] for rank in range(4)}) == 1
    assert list(runs(lab).values()).count(runs(lab)["again3"]) == 1


def test_two_jobs_at_the_same_time_in_one_folder_are_two_runs(tmp_path: Path) -> None:
    ranks = {f"{job}{rank}": (rank, 2, START + 10 * rank + at) for at, job in enumerate("ab") for rank in (0, 1)}
    lab = ingest_paths(tmp_path, files(tmp_path, **ranks), run=None)
    assert len(set(runs(lab).values())) == 2
    assert "rank_recorded_again" not in codes(lab)


def test_a_given_name_makes_one_run_of_all(tmp_path: Path) -> None:
    lab = ingest_paths(tmp_path, files(tmp_path, a=(0, 2, START), b=(1, 2, START)), run="mine")
    assert set(runs(lab).values()) == {"mine"}
