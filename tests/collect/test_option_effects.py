"""Options of collect train and collect run that have no effect are refused in one sentence."""

import pytest
from click.testing import CliRunner

from tracelab.cli import main
from tracelab.collect.option_effects import check_effects, describe_disabled
from tracelab.collect.program.settings import ProgramSettings, validate_program
from tracelab.collect.recording.window import Window
from tracelab.collect.settings import Settings, non_default_options, validate_settings
from tracelab.collect.workloads import find_workload, list_workloads
from tracelab.errors import UsageError

SHIPPED = sorted(list_workloads())
VALUES = {
    "model": "resnet50",
    "data": "cifar10",
    "image_size": 64,
    "data_fraction": 0.5,
    "batch_size": 4,
    "accumulate": 4,
    "precision": "bf16",
    "optimizer": "adam",
    "learning_rate": 0.5,
    "momentum": 0.5,
    "weight_decay": 0.1,
    **dict.fromkeys(("validate", "pin_memory", "compile", "cuda_graphs", "channels_last"), True),
    "workers": 2,
    "data_root": "data",
    "weights": "file.pt",
    "pretrained": True,
    "compile_mode": "max-autotune",
    "fsdp_precision": "policy",
    "fsdp_wrap": "model",
    "fsdp_reshard": "never",
}
READ = {
    "gemm": {"precision"},
    "triad": set(),
    "copies": set(),
    "streams": set(),
    "collectives": set(),
    "inference": {"model", "batch_size", "precision", "compile", "compile_mode"},
    "transformer": VALUES.keys() - {"model", "data", "image_size", "data_root"},
    "decoder": VALUES.keys() - {"data", "image_size", "data_root"},
    "huggingface": VALUES.keys() - {"data", "image_size", "data_root"},
    "image_classification": VALUES.keys(),
}


def refusal(workload, **options):
    """Return the sentence that refuses options, or None."""
    try:
        check_effects(Settings(workload, **options), find_workload(workload))
    except UsageError as error:
        return str(error)
    return None


@pytest.mark.parametrize("workload", SHIPPED)
def test_each_option_that_a_workload_does_not_read_is_refused(workload):
    assert workload in READ, f"add to READ which options of VALUES {workload} reads"
    refused = {name for name, value in VALUES.items() if "no effect: " in (refusal(workload, **{name: value}) or "")}
    assert refused == VALUES.keys() - READ[workload]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["decoder", "--model", "9b"], "no model of decoder '9b'; did you mean '8b'?"),
        (["inference", "--model", "x"], "no model of inference 'x'; there are tiny, 135m, 1b, 3b, 8b, 70b."),
        (["triad", "--set", "foo=1"], "no setting of triad 'foo'; there are elements, repeats."),
        (["decoder", "--set", "context=x"], "--set context=x: expected int, as in the default 64"),
    ],
)
def test_models_and_settings_that_a_workload_lacks_are_refused_without_a_run_folder(tmp_path, words, message):
    done = CliRunner().invoke(main, ["collect", "train", *words, "--out", str(tmp_path / "runs")])
    assert (done.exit_code, done.stderr, list(tmp_path.iterdir())) == (2, f"tracelab: {message}\n", [])


def test_the_help_lists_models_and_settings_of_each_workload():
    text = " ".join(CliRunner().invoke(main, ["collect", "train", "--help"]).stdout.split())
    assert "gemm --set repeats=4, size=256" in text
    assert "inference --model tiny, 135m, 1b, 3b, 8b, 70b; --set attention=auto, output=16, prompt=64" in text
    assert all(f" {name} --" in text for name in SHIPPED)


def test_all_such_options_are_in_one_sentence():
    assert refusal("inference", accumulate=4, workers=1) == (
        "--accumulate and --workers have no effect: inference trains no model and does not read them; remove them"
    )
    assert refusal("transformer", image_size=64) == (
        "--image-size has no effect: transformer does not read it; remove it"
    )


def test_options_of_a_class_that_the_file_imports_are_unknown_and_not_refused(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("from gemm import Settings\ndef workload(settings): ...\n")
    assert refusal(str(path), batch_size=4) is None
    path.write_text("import gemm\nclass Settings(gemm.Settings): ...\ndef workload(settings): ...\n")
    assert refusal(str(path), batch_size=4) is None
    path.write_text("class Settings:\n    size: int = 1\ndef workload(settings): ...\n")
    assert "--batch-size has no effect" in refusal(str(path), batch_size=4)


def test_a_workload_without_a_model_is_not_distributed():
    for workload, parallelisms in {"gemm": ("dp", "fsdp", "tp"), "inference": ("dp", "fsdp")}.items():
        for parallel in parallelisms:
            assert refusal(workload, parallel=parallel) == (
                f"--parallel {parallel} has no effect: {workload} trains no model that it could distribute; "
                "use --parallel ddp, which runs the workload in each rank"
            )
    assert refusal("gemm", parallel="ddp") is refusal("inference", parallel="tp") is None


def test_a_workload_that_trains_may_list_its_parallelisms(tmp_path):
    path = tmp_path / "mine.py"
    fields = 'class Settings:\n    parallel: Literal["none", "fsdp"] = "none"\n'
    path.write_text(f"{fields}def model(settings): ...\ndef workload(network): ...\n")
    assert refusal(str(path), parallel="ddp") == "no --parallel of mine 'ddp'; did you mean 'fsdp'?"
    assert refusal(str(path), parallel="fsdp") is None


def test_pretrained_needs_weights_that_the_workload_names():
    assert "decoder defines no weights(settings)" in refusal("decoder", pretrained=True)
    assert refusal("image_classification", pretrained=True) is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"profiler": "kineto", "metrics": ("x",)}, "--metrics needs --profiler ncu"),
        ({"profiler": "kineto", "clock_control": "base"}, "--clock-control needs --profiler ncu"),
        ({"optimizer": "adam", "momentum": 0.5}, "--momentum needs --optimizer sgd"),
    ],
)
def test_an_option_of_a_profiler_or_an_optimizer_needs_it(options, sentence):
    with pytest.raises(UsageError, match=sentence):
        validate_settings(Settings("decoder", **options))


def disabled(workload, **options):
    """Return in words which options have no effect."""
    return describe_disabled(Settings(workload, **options), find_workload(workload))


def test_options_that_others_disable_are_named():
    assert disabled("decoder", device="cpu", active=5, cycles=2, pin_memory=True) == (
        "--active and --cycles have no effect without a profiler; "
        "--pin-memory has no effect without an NVIDIA or AMD GPU"
    )
    own = {"device": "cuda", "profiler": "kineto", "active": 5, "pin_memory": True, "data_root": "d"}
    assert disabled("image_classification", **own) == "--data-root has no effect with --data synthetic"
    assert not disabled("decoder", device="cpu")


def test_only_a_shipped_workload_is_known_to_have_no_images(tmp_path):
    assert disabled("decoder", channels_last=True) == "--channels-last has no effect without images"
    assert not disabled("image_classification", channels_last=True)
    path = tmp_path / "mine.py"
    path.write_text("class Settings:\n    size: int = 1\ndef model(settings): ...\ndef workload(network): ...\n")
    assert not disabled(str(path), channels_last=True)


def test_a_program_that_no_ncu_measures_has_no_metrics():
    with pytest.raises(UsageError, match="--metrics needs --profiler ncu"):
        validate_program(ProgramSettings(("python",), ("kineto", "none"), metrics=("x",)))
    assert validate_program(ProgramSettings(("python",), ("kineto", "ncu"), metrics=("x",))).metrics == ("x",)


def test_nsys_by_seconds_records_once():
    window = Window(after_s=1, cycles=2)
    with pytest.raises(UsageError, match="nsys records once by seconds"):
        validate_program(ProgramSettings(("python",), ("nsys",), window))
    assert validate_program(ProgramSettings(("python",), ("kineto",), window)).window.cycles == 2


def test_values_of_this_file_differ_from_the_defaults():
    assert non_default_options(Settings("gemm", **VALUES)).keys() == VALUES.keys()
