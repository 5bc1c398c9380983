"""A few thousand damaged inputs to each tolerant parser, the same ones each time; none may raise.

Longer runs are made by hand, see CONTRIBUTING.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import kineto_damage
from tests.fuzz.targets import TARGETS
from tests.properties import at_most

RUNS = at_most(6000)
TRACES = at_most(2000)
ROOT = Path(__file__).resolve().parents[2]

needs_atheris = pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="atheris is not installed; it exists for Linux only"
)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """Fuzz every target; return the folder that has a folder for each, and their exit codes."""
    folder = tmp_path_factory.mktemp("fuzzed")
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.run", "all", "--runs", str(RUNS), "--seconds", "120"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=300 * len(TARGETS),
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder, {name: int(code) for name, code in map(str.split, done.stdout.splitlines())}


@needs_atheris
@pytest.mark.parametrize("target", TARGETS)
def test_no_damaged_input_raises(fuzzed, target):
    folder, codes = fuzzed
    log = (folder / target / "fuzz.log").read_text(errors="replace")
    assert codes[target] == 0, log[-4000:]
    assert f"Done {RUNS} runs" in log
    assert list((folder / target).glob("crash-*")) == []


@pytest.mark.parametrize("target", TARGETS)
def test_what_the_fuzzer_begins_with_raises_nothing(target):
    for seed in (b"", *TARGETS[target].seeds):
        TARGETS[target].run(seed)


@pytest.mark.parametrize(
    "seed",
    [
        42000004702,
        315000003441,
        316000000102,
        317000004777,
        501000001974,
        501000003317,
        501000017539,
        502000000779,
        504000015138,
        505000010618,
        505000022518,
        506000022745,
        507000007437,
        507000008916,
        509000010244,
    ],
)
def test_damaged_traces_that_long_runs_of_the_fuzzer_found_lose_no_event_uncounted(seed: int, tmp_path: Path) -> None:
    kineto_damage.check(seed, tmp_path)


def test_no_damaged_trace_loses_an_event_uncounted_or_takes_long():
    assert kineto_damage.run(range(TRACES), 120) == TRACES
