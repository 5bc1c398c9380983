"""The command that compares, its exit codes and refusals, and the same in Python."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from tests.build import build_store
from tests.compare.small_runs import recording, together, with_facts
from tracelab.cli import main
from tracelab.client import Lab
from tracelab.compare import writers
from tracelab.errors import UsageError


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tables = together(*(recording(run, slower=slower) for run, slower in (("main", 0), ("main-2", 10), ("new", 2_000))))
    return build_store(tmp_path_factory.mktemp("compare") / "lab", tables)


def run_command(store: Path, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["compare", *words, "--store", str(store)])
    return result.exit_code, result.output


def test_a_failure_has_another_exit_code_than_a_regression(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "comment.md"
    target.write_text("kept")
    code, output = run_command(store, "main1", "new", "-o", str(target))
    assert (code, "add --force to overwrite it" in output, target.read_text()) == (6, True, "kept")


def test_command_writes_a_comment_and_exits_by_its_gates(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "comment.md"
    gate = ("--fail-on", "step_time > 3%", "--strict")
    code, _ = run_command(store, "--base-runs", "main*", "--candidate-runs", "new", *gate, "-o", str(target))
    assert code == 4
    verdict = "**Undecided:** step time differs by +19.9 %, 10.01 µs → 12.00 µs, in 2 + 1 recordings"
    assert target.read_text().startswith(verdict)


def test_python_returns_rows_and_the_verdict(store: Path) -> None:
    result = Lab(store).compare("main", "new", fail_on="step_time > 3%")
    assert (result.verdict, result.gates) == ("undecided", {"step_time > 3%": "undecided"})
    row = result.to_pylist()[0]
    assert (row["metric"], row["base_ns"], row["candidate_ns"], row["change_ratio"]) == (
        "step_time",
        10_000,
        12_000,
        pytest.approx(0.2),
    )
    assert result.pl()["metric"][0] == "step_time"
    assert result.arrow().num_rows == len(result) > 5
    assert "<td>step_time</td>" in result._repr_html_()
    assert repr(result).startswith("Undecided: step time differs by +20.0 %")
    assert result.markdown().startswith("**Undecided:**")


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (("main",), 2, "name the candidate: CANDIDATE, or --candidate-runs PATTERN"),
        (("--candidate-runs", "new"), 2, "name the base: BASE, or --base-runs PATTERN"),
        (
            ("main", "new", "--base-runs", "main"), 2,
            "the base is given twice, as main and by --base-runs; omit one of the two",
        ),
        (("main", "new", "--step-name", "("), 2, "--step-name '(' is no regular expression: missing ): ("),
        (("main", "new", "--step-name", "no_such"), 3, "--step-name 'no_such' finds no range of main, new;"),
        (("main", "main"), 2, "main is in base and candidate; name different runs"),
        (("main", "mian"), 3, "the store has no run 'mian'; nearest: main"),
        (("main", "--candidate-runs", "x*"), 3, "x*: the store has no such run; it has main, main-2, new"),
        (("main", "new", "--fail-on", "step_time"), 2, "expected METRIC > PERCENT%, such as 'step_time > 3%'"),
        (("main", "new", "--noise-runs", "main-2"), 2, "--noise-runs matches one run, main-2"),
        (("main", "new", "--allow-different", "color"), 2, "--allow-different color: expected one of gpu, gpus"),
        (("main", "new", "-o", "x.doc"), 2, "x.doc: no format has this suffix"),
    ],
)  # fmt: skip
def test_wrong_request_is_refused_with_what_to_do(store: Path, words: tuple[str, ...], code: int, problem: str) -> None:
    exited, output = run_command(store, *words)
    assert (exited, problem in output) == (code, True), output


def test_gate_on_an_unknown_metric_lists_the_metrics(store: Path) -> None:
    with pytest.raises(
        UsageError, match=r"no metric 'step_tim' .* \(did you mean 'step_time'\?\); they have step_time"
    ):
        Lab(store).compare("main", "new", fail_on="step_tim > 3%")


@pytest.fixture(scope="module")
def other_gpu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sides = [with_facts(recording("main")), with_facts(recording("new"), gpu="H100")]
    return build_store(tmp_path_factory.mktemp("refused") / "lab", together(*sides))


REASON = (
    "base and candidate cannot be compared: GPU model A100 against H100; record both on one GPU model, or add "
    "--allow-different gpu"
)


def test_refusal_exits_with_5_and_is_a_document_of_the_format(other_gpu: Path, tmp_path: Path) -> None:
    def refuse(*words: str) -> tuple[str, str]:
        result = CliRunner().invoke(main, ["compare", "main", "new", *words, "--store", str(other_gpu)])
        assert result.exit_code == 5
        assert result.stderr.endswith(f"tracelab: {REASON}\n")
        return result.stdout, result.stderr

    assert refuse()[0] == ""
    content = json.loads(refuse("--format", "json")[0])
    assert (content["tracelab"], content["verdict"], content["exit_code"]) == ("comparison/1", "refused", 5)
    assert (content["reason"], content["metrics"], content["request"]["base"]) == (REASON, [], ["main"])
    assert {each["fact"]: each["verdict"] for each in content["comparability"]}["gpu"] == "different"
    compared = json.loads(
        writers.write_json(Lab(other_gpu).compare("main", "new", allow_different=["gpu"]).comparison, strict=False)
    )
    assert set(content) - {"reason", "request"} == set(compared) - {"unit"}
    assert content["kernels"].keys() == compared["kernels"].keys()
    markdown = refuse("--format", "markdown")[0]
    assert markdown.startswith("**Refused:** base and candidate cannot be compared: GPU model A100 against H100;")
    suite = ElementTree.fromstring(refuse("--format", "junit")[0])[0]  # noqa: S314  ours
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "1", "failures": "0", "errors": "1", "skipped": "0",
    }  # fmt: skip
    (error,) = suite.iter("error")
    assert (error.get("type"), error.get("message")) == ("refused", REASON)
    refuse("-o", str(tmp_path / "comment.md"))
    assert (tmp_path / "comment.md").read_text() == markdown


def test_missing_data_are_a_document_too_and_exit_with_3(store: Path) -> None:
    code, output = run_command(store, "main", "--candidate-runs", "x*", "--format", "json")
    assert code == 3
    assert json.loads(output.splitlines()[0])["reason"].startswith("--candidate-runs x*: the store has no such run")


def test_python_has_the_exit_code_of_the_command(store: Path) -> None:
    lab = Lab(store)
    gate = "step_time > 3%"
    codes = [lab.compare("main", "new", fail_on=gate, strict=strict).exit_code for strict in (False, True)]
    assert codes == [0, 4]
    assert lab.compare("main", "new", noise_runs="main*").comparison.request.noise == ("main", "main-2")
