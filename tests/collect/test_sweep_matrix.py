"""A sweep file multiplied out: which cells, in which order, with which settings, under which names."""

import tomllib
from pathlib import Path

import pytest

from tracelab.collect.sweep import progress_table
from tracelab.collect.sweep.matrix import Sweep, expand_matrix, find_sweep_file, load_sweep
from tracelab.collect.sweep.runner import RunnerOptions, cell_command, select_cells
from tracelab.collect.sweep.values import parse_fixed
from tracelab.errors import UsageError
from tracelab.resources import COLLECTORS

OUT = Path("runs")
MATRIX = """
workload = "image_classification"
timeout_s = 60
[fixed]
device = "cpu"
[axes]
model = ["alexnet", "vgg16"]
batch_size = [4, 8]
"""


def sweep(text: str, repeats: int | None = None) -> Sweep:
    return expand_matrix({"name": "S"} | tomllib.loads(text), OUT, repeats)


def runs(text: str, repeats: int | None = None) -> list[str]:
    return [cell.run for cell in sweep(text, repeats).cells]


def refusal(text: str) -> str:
    with pytest.raises(UsageError) as error:
        sweep(text)
    return str(error.value)


def test_axes_are_multiplied_the_last_one_fastest() -> None:
    assert runs(MATRIX) == ["S-alexnet-b4", "S-alexnet-b8", "S-vgg16-b4", "S-vgg16-b8"]


def test_every_cell_knows_its_settings_its_sweep_and_its_place() -> None:
    settings = sweep(MATRIX).cells[1].settings
    assert (settings.model, settings.batch_size, settings.device, settings.timeout_s) == ("alexnet", 8, "cpu", 60.0)
    assert (settings.sweep, settings.repeat, settings.run, settings.out) == ("S", 0, "S-alexnet-b8", Path("runs/S"))


def test_excluded_cells_are_left_out() -> None:
    assert runs(MATRIX + "[[exclude]]\nmodel = 'vgg16'\nbatch_size = 8\n") == [
        "S-alexnet-b4",
        "S-alexnet-b8",
        "S-vgg16-b4",
    ]


def test_excluding_what_no_cell_is_gets_a_sentence() -> None:
    excluded = "[[exclude]]\nmodel = 'vgg16'\nbatch_size = 9\n[[exclude]]\nmodel = 'alexnet'\n"
    assert sweep(MATRIX + excluded).idle == ("[[exclude]] model = 'vgg16', batch_size = 9 matches no cell; remove it",)


def test_included_cells_stand_beside_the_axes_with_what_is_fixed() -> None:
    cells = sweep(MATRIX + "[[include]]\nmodel = 'vgg19'\nworkers = 2\n").cells
    last = cells[-1].settings
    assert (len(cells), last.model, last.batch_size, last.workers, last.device) == (5, "vgg19", 8, 2, "cpu")


def test_override_changes_the_cells_that_fit() -> None:
    text = MATRIX + "[[override]]\nwhere = { model = 'vgg16' }\nset = { image_size = 224 }\n"
    assert [cell.settings.image_size for cell in sweep(text).cells] == [32, 32, 224, 224]


def test_axis_of_tables_varies_options_that_go_together() -> None:
    text = """
    workload = "transformer"
    [fixed]
    device = "cpu"
    [axes]
    ranks = [{ gpus = 1 }, { gpus = 2, parallel = "ddp" }]
    """
    cells = sweep(text).cells
    assert [(cell.settings.gpus, cell.settings.parallel) for cell in cells] == [(1, "none"), (2, "ddp")]
    assert [cell.run for cell in cells] == ["S-g1", "S-g2-ddp"]


def test_matrices_of_one_file_share_what_stands_above_them_and_their_common_cells() -> None:
    text = MATRIX.replace("[axes]", "[[matrix]]\n[matrix.axes]") + "[[matrix]]\nfixed = { model = 'vgg16' }\n"
    text += "axes = { batch_size = [8, 16] }\n"
    assert runs(text) == ["S-alexnet-b4", "S-alexnet-b8", "S-vgg16-b4", "S-vgg16-b8", "S-vgg16-b16"]


def test_more_repeats_rename_nothing() -> None:
    assert runs("workload = 'gemm'") == ["S"]
    assert runs("workload = 'gemm'\nrepeats = 3") == ["S", "S-r1", "S-r2"]
    assert runs("workload = 'gemm'\nrepeats = 3", repeats=1) == ["S"]


def test_settings_of_the_workload_are_axes_too() -> None:
    cells = sweep("workload = 'transformer'\n[fixed]\nset = { layers = 1 }\n[axes]\n'set.width' = [64, 128]").cells
    assert [cell.settings.set for cell in cells] == [{"layers": "1", "width": "64"}, {"layers": "1", "width": "128"}]
    assert cells[1].run == "S-layers1-width128"


def test_names_that_would_be_too_long_or_alike_end_in_a_digest() -> None:
    names = runs("workload = 'gemm'\n[axes]\n'tag.note' = ['" + "x" * 200 + "', '" + "x" * 201 + "', 'a b', 'a?b']")
    assert (len(set(names)), max(map(len, names)) <= 90) == (4, True)
    assert names[2].startswith("S-notea-b-")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("workload = 'gemm'\n[axes]\nbatchsize = [1]", "no option 'batchsize'; did you mean 'batch_size'?"),
        ("workload = 'gemm'\n[axes]\nbatch_size = 4", "axis batch_size = 4: expected a list with at least one value"),
        ("workload = 'gemm'\n[axes]\nbatch_size = ['4']", "batch_size = '4': expected a whole number"),
        ("workload = 'gemm'\n[axes]\nbatch_size = [true]", "batch_size = True: expected a whole number"),
        ("workload = 'gemm'\n[axes]\nbatch_size = [0]", "batch_size = 0: must be at least 1"),
        ("workload = 'gemm'\n[fixed]\nrun = 'x'", "no option 'run'"),
        ("workload = 'gemm'\nrepeats = 0", "repeats = 0: expected a whole number from 1 on"),
        ("[axes]\nbatch_size = [1]", "no workload; add one"),
        ("workload = 'gemm'\n[axis]\nbatch_size = [1]", "no key 'axis'; did you mean 'axes'?"),
        ("workload = 'gemm'\nname = 'a b'", "'a b' is not a valid run name"),
        ("workload = 'gemm'\n[axes]\n'set.sise' = [1]", "no setting of gemm 'sise'; did you mean 'size'?"),
        ("workload = 'gemm'\n[axes]\nparallel = ['none', 'pp']", "cell S-pp: no value of --parallel 'pp'"),
        (f"workload = 'gemm'\n[axes]\nseed = {list(range(101))}\nbatch_size = {list(range(1, 101))}", "10,100 cells"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_reported(text: str, sentence: str) -> None:
    assert sentence in refusal(text)


def test_cells_that_ran_are_not_chosen_again_but_those_requested() -> None:
    cells = sweep(MATRIX).cells
    states = dict(zip([cell.run for cell in cells], ["ok", "failed", "not_run", "running"], strict=True))

    def names(only: list[str], redo: list[str]) -> list[str]:
        return [cell.run for cell in select_cells(cells, states, only, redo)]

    assert names([], []) == ["S-vgg16-b4"]
    assert names([], ["failed"]) == ["S-alexnet-b8", "S-vgg16-b4"]
    assert names(["ok"], []) == ["S-alexnet-b4"]


def test_command_line_of_a_cell_is_that_of_collect_train() -> None:
    text = MATRIX + "[[override]]\nwhere = {}\nset = { pin_memory = true, tag = { rack = 7 } }\n"
    line = cell_command(sweep(text).cells[0], "failed", RunnerOptions(("srun", "--nodes=2"), ("train",)))
    assert line[:3] == ["srun", "--nodes=2", "train"]
    assert " ".join(line[3:]) == (
        "image_classification --model alexnet --batch-size 4 --device cpu --pin-memory --timeout-s 60.0 "
        "--out runs/S --run S-alexnet-b4 --force --sweep S --repeat 0 --tag rack=7"
    )


def test_cells_are_shown_as_a_table() -> None:
    cells = sweep(MATRIX)
    states = dict.fromkeys((cell.run for cell in cells.cells), "not_run") | {"S-vgg16-b8": "oom"}
    assert progress_table.render_cells(cells, cells.cells[-2:], states).splitlines() == [
        "run         model  batch_size  repeat  state",
        "S-vgg16-b4  vgg16  4           0       not_run",
        "S-vgg16-b8  vgg16  8           0       oom",
    ]
    assert progress_table.count_states(states) == "4 cells: 1 oom, 3 not_run"


def test_what_is_fixed_from_outside_wins() -> None:
    fixed = parse_fixed(["data_root=/data", "data=cifar10", "workers=3", "tag.machine=b"])
    cells = expand_matrix({"name": "S"} | tomllib.loads(MATRIX), OUT, None, fixed).cells
    assert {(c.settings.data, c.settings.workers, str(c.settings.data_root)) for c in cells} == {
        ("cifar10", 3, "/data")
    }
    assert (cells[0].run, cells[0].settings.tag) == ("S-alexnet-b4", {"machine": "b"})


@pytest.mark.parametrize("name", sorted(path.stem for path in (COLLECTORS / "sweeps").glob("*.toml")))
def test_sweep_that_is_shipped_has_cells(name: str) -> None:
    path = find_sweep_file(COLLECTORS / "sweeps", name)
    cells = load_sweep(path, OUT).cells
    if not name.endswith("-smoke"):
        assert len(cells) > 0
        return
    settings = [cell.settings for cell in cells]
    assert len(cells) <= 6
    assert {(each.steps, each.image_size, each.device) for each in settings} <= {(2, 32, "cpu"), (2, 64, "cpu")}


def test_study_s0_has_the_36_runs_of_its_matrix() -> None:
    cells = load_sweep(COLLECTORS / "sweeps" / "S0.toml", OUT).cells
    assert len({(c.settings.data_fraction, c.settings.batch_size, c.settings.gpus) for c in cells}) == 36
