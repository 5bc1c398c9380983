"""`tracelab export` on the command line: where it writes, and what it says."""

import gzip
import json

import pytest
from click.testing import CliRunner, Result

from tests.build import build_store
from tracelab.cli import main

KERNEL = {"name": "gemm", "device": 0, "stream": 7, "start_ns": 0, "dur_ns": 5}


def tracelab(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def lab(tmp_path):
    return build_store(tmp_path / "lab", {"kernels": [KERNEL, KERNEL | {"start_ns": 1_000_000}]})


def test_a_name_that_ends_in_gz_is_packed(lab, tmp_path):
    said = tracelab("export", "--store", lab, "-o", tmp_path / "t.json.gz")
    assert said.exit_code == 0
    events = json.loads(gzip.decompress((tmp_path / "t.json.gz").read_bytes()))["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == 2
    assert "2 events of 1 rank, 4 values of counters" in said.stderr


def test_a_dash_writes_to_stdout(lab):
    said = tracelab("export", "--store", lab, "--to", "0.5ms", "-o", "-")
    assert sum(event["ph"] == "X" for event in json.loads(said.stdout)["traceEvents"]) == 1


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (("-o", "t.pftrace"), 2, "use a file name that ends in .json or .json.gz"),
        (("--from", "2 days"), 2, "'2 days' is no time; write it as 1.5s, 20ms, 300us or 1234567 (ns)"),
        (("--from", "5ms", "--to", "5ms"), 2, "--to must be later than --from"),
        (("--run", "rr"), 3, "the store has no run 'rr'; nearest: r"),
        (("--rank", "4"), 3, "nothing was recorded of that rank and time"),
    ],
)
def test_a_wrong_request_is_answered_with_a_sentence_and_no_file(lab, tmp_path, monkeypatch, options, code, sentence):
    monkeypatch.chdir(tmp_path)
    said = tracelab("export", "--store", lab, *options)
    assert (said.exit_code, sentence in said.stderr) == (code, True)
    assert [path.name for path in tmp_path.iterdir()] == ["lab"]


def test_a_file_that_exists_stays(lab, tmp_path):
    (tmp_path / "t.json").write_text("mine")
    said = tracelab("export", "--store", lab, "-o", tmp_path / "t.json")
    assert (said.exit_code, (tmp_path / "t.json").read_text()) == (1, "mine")
