"""Stacks as collapsed lines and as files of speedscope."""

import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.build import build_store
from tracelab.cli import main
from tracelab.errors import NoDataError, UsageError
from tracelab.export import stacks

FRAMES = [
    {"name": "main.py(1): main", "pid": 1, "tid": 1, "start_ns": 0, "dur_ns": 100},
    {"name": "a;b\nc", "pid": 1, "tid": 1, "start_ns": 10, "dur_ns": 30},
]
MEMORY = [{"pid": 1, "tid": 1, "time_ns": 20, "device": 0, "address": 1, "size_bytes": 512, "source": "s0"}]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    two = [row | {"rank": rank, "source": f"s{rank}"} for rank in (0, 1) for row in FRAMES]
    return build_store(tmp_path_factory.mktemp("stacks") / "lab", {"python_frames": two, "memory_events": MEMORY})


def collapsed(store: Path, **chosen: object) -> list[str]:
    stream = io.BytesIO()
    stacks.write_collapsed(stacks.read_stacks(store, stacks.StackRequest(**chosen))[0], stream)
    return stream.getvalue().decode().splitlines()


def test_a_collapsed_line_is_a_stack_and_its_own_cost(store: Path) -> None:
    assert collapsed(store, ranks=(1,), measures=("cpu",)) == ["main.py(1): main 70", "main.py(1): main;a,b c 30"]


def test_ranks_are_roots_where_there_are_several(store: Path) -> None:
    assert collapsed(store, measures=("cpu",))[0] == "r rank 0;main.py(1): main 70"


def test_collapsed_stacks_of_two_measures_are_refused(store: Path) -> None:
    with pytest.raises(UsageError, match="choose it with --measure"):
        collapsed(store, ranks=(0,))


def test_a_measure_that_was_not_recorded_names_what_records_it(store: Path) -> None:
    with pytest.raises(NoDataError, match=r"no stack with GPU time launched; record with with_stack=True"):
        stacks.read_stacks(store, stacks.StackRequest(measures=("gpu",)))


def test_stacks_of_a_scope_are_those_of_its_frames(tmp_path: Path) -> None:
    def on(start: int, dur: int, name: str) -> dict[str, object]:
        return {"name": name, "pid": 1, "tid": 1, "start_ns": start, "dur_ns": dur}

    steps = [on(5 + 50 * step, 50, f"ProfilerStep#{step}") | {"scope": "cpu"} for step in (0, 1)]
    frames = [on(0, 100, "main"), on(10, 30, "f"), on(60, 20, "f")]
    lab = build_store(tmp_path / "lab", {"python_frames": frames, "annotations": steps})

    def export(*options: str) -> list[str]:
        words = ["export", "--collapsed", "--store", str(lab), "-o", str(tmp_path / "stacks.txt"), "--force", *options]
        answer = CliRunner().invoke(main, words)
        printed = [line.partition(";")[0] for line in answer.output.splitlines()[1:]]  # after the path
        return [*printed, *(tmp_path / "stacks.txt").read_text("utf-8").splitlines()]

    two = ["2 stacks of 1 rank: time on the CPU"]
    assert export("--steps", "1") == ["1 stack of 1 rank: time on the CPU", "Scope: steps 1 of 0–1", "f 20"]
    assert export("--to", "50ns") == [
        *two,
        "Scope: to 50ns",
        "main 70",
        "main;f 30",
    ]  # main begins before the first event
    assert export("--from", "0.05us")[1] == "Scope: from 50ns"
    assert export() == [*two, "main 50", "main;f 50"]


def test_speedscope_has_a_profile_for_each_rank_and_measure_whose_weights_add_up(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    answer = CliRunner().invoke(main, ["export", "--speedscope", "--store", str(store), "-o", str(path)])
    assert answer.exit_code == 0, answer.output
    content = json.loads(path.read_text(encoding="utf-8"))
    check_speedscope(content)
    assert [(each["name"], each["unit"], each["endValue"]) for each in content["profiles"]] == [
        ("r rank 0: time on the CPU", "nanoseconds", 100),
        ("r rank 0: bytes allocated on GPUs", "bytes", 512),
        ("r rank 1: time on the CPU", "nanoseconds", 100),
    ]
    assert content["shared"]["frames"] == [{"name": "main", "file": "main.py", "line": 1}, {"name": "a;b\nc"}]


def check_speedscope(content: dict) -> None:
    """Check what speedscope's schema requires of a file with sampled profiles."""
    assert content["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = content["shared"]["frames"]
    assert all(isinstance(frame["name"], str) and set(frame) <= {"name", "file", "line", "col"} for frame in frames)
    for profile in content["profiles"]:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert profile["type"] == "sampled"
        assert profile["unit"] in {"none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"}
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(0 <= place < len(frames) for stack in profile["samples"] for place in stack)
        assert profile["startValue"] + sum(profile["weights"]) == profile["endValue"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--collapsed", "--aligned"), "stacks have no times"),
        (("--steps", "1"), "are about stacks"),
        (("--critical-path", "--steps", "1"), "adds the path of the whole recording"),
        (("--measure", "gpu"), "add --speedscope or --collapsed"),
    ],
)
def test_options_that_do_not_go_together_are_refused(store: Path, options: tuple[str, ...], sentence: str) -> None:
    answer = CliRunner().invoke(main, ["export", "--store", str(store), *options])
    assert isinstance(answer.exception, (UsageError, SystemExit))
    assert sentence in str(answer.exception) + answer.output
