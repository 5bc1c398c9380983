"""Any program is recorded into a run folder: its steps, windows, ranks, and profilers, up to the queries."""

import gzip
import json
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.collect.program_recordings import (
    EXAMPLE,
    LOOP,
    described,
    names,
    record,
    record_loop,
    recorded_steps,
    step_rows,
)
from tests.collect.test_nvidia_captures import PROGRAM, STEP, environ
from tests.needs import needs_torch
from tracelab.cli import main
from tracelab.client import Lab
from tracelab.collect.program.run import run_program
from tracelab.collect.program.settings import ProgramSettings
from tracelab.collect.recording.profilers import KinetoOptions
from tracelab.collect.recording.window import Window
from tracelab.collect.run_end import Result
from tracelab.ingest import pipeline
from tracelab.query.library import library
from tracelab.report.answers import open_report_session

pytestmark = [needs_torch, pytest.mark.usefixtures("_forked_programs")]


def test_a_short_program_is_recorded_whole(tmp_path: Path) -> None:
    result = record_loop(tmp_path)
    content, counts = described(result), names(result)
    assert (result.status, result.error) == ("ok", None)
    assert (content["world_size"], content["gpus"], content["program"]) == (
        1,
        0,
        f"{Path(sys.executable).name} loop.py",
    )
    assert content["ranks"]["0"]["steps"] == 6
    assert counts["aten::addmm"] == 6
    assert (recorded_steps(result), counts["Partial_Step#6"]) == ([1, 2, 3, 4, 5], 1)
    assert counts["Program start"] == 1
    assert [row["step"] for row in step_rows(result)] == [1, 2, 3, 4, 5]
    assert content["expects"] == {"ranks": [0], "files": ["rank0.pt.trace.json.gz", "steps.rank0.jsonl"]}
    assert not list(result.folder.glob(".*"))


def test_a_long_program_is_recorded_for_twenty_steps(tmp_path: Path) -> None:
    result = record_loop(tmp_path, steps=30)
    assert (result.status, recorded_steps(result)) == ("ok", list(range(1, 20)))
    assert names(result)["aten::addmm"] == 20


@pytest.mark.parametrize(
    ("window", "steps"),
    [
        (Window(wait=3, active=2), {"": [3, 4]}),
        (Window(active=2), {"": [1, 2]}),
        (Window(wait=2, active=2, cycles=2), {".step2": [2, 3], ".step6": [6, 7]}),
    ],
)
def test_a_window_of_steps_holds_these_steps_alone(tmp_path: Path, window: Window, steps: dict[str, list[int]]) -> None:
    result = record_loop(tmp_path, steps=10, window=window)
    parts = {part: recorded_steps(result, f"rank0{part}.pt.trace.json.gz") for part in steps}
    assert (result.status, parts) == ("ok", steps)
    assert all(names(result, f"rank0{part}.pt.trace.json.gz")["aten::addmm"] == 2 for part in steps)
    assert len(list(result.folder.glob("*.gz"))) == len(steps)


def test_seconds_record_a_program_that_never_steps(tmp_path: Path) -> None:
    script = tmp_path / "serve.py"
    script.write_text(
        "import time, torch\nfrom torch.profiler import record_function\nbegun = time.monotonic()\n"
        "while (passed := time.monotonic() - begun) < 1.6:\n"
        "    with record_function('early' if passed < 0.4 else 'late' if passed > 1.3 else 'between'):\n"
        "        torch.ones(4) + 1\n    time.sleep(0.01)\n"
    )
    result = record(tmp_path, sys.executable, str(script), window=Window(after_s=0.5, for_s=0.5))
    counts = names(result)
    assert (result.status, counts["early"], counts["late"]) == ("ok", 0, 0)
    assert counts["between"] > 5


def test_a_request_records_the_next_steps(tmp_path: Path) -> None:
    request = tmp_path / "r" / "record"

    def touch() -> None:
        while not list(tmp_path.glob("r/.processes/*/record.json")):
            time.sleep(0.02)
        time.sleep(0.3)
        request.touch()

    toucher = threading.Thread(target=touch)
    toucher.start()
    each = "time.sleep(0.01)\n    if os.path.exists(os.path.dirname(os.environ['TRACELAB_RECORDING']) + '/done'): break"
    result = record_loop(tmp_path, steps=200, each=each, window=Window(on_demand=True, active=3))
    toucher.join()
    (trace,) = result.folder.glob("rank0.step*.pt.trace.json.gz")
    steps = recorded_steps(result, trace.name)
    assert (result.status, len(steps), steps[-1] - steps[0]) == ("ok", 3, 2)
    assert steps[0] > 5
    assert not request.exists()


def test_a_program_that_handles_the_signal_of_requests_itself_has_a_note(tmp_path: Path) -> None:
    each = "signal.signal(signal.SIGUSR1, signal.SIG_IGN)"
    result = record_loop(tmp_path, steps=2, each=each, window=Window(on_demand=True))
    assert result.note is not None
    assert result.note.startswith("the program handles SIGUSR1 itself; send it to tracelab collect run")


@pytest.mark.usefixtures("_programs_in_new_processes")
def test_signals_that_are_not_for_the_recording_reach_the_program(tmp_path: Path) -> None:
    numbers = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGHUP, signal.SIGRTMIN]
    each = f"""
    if step == 0:
        received = []
        for number in {list(map(int, numbers))}:
            signal.signal(number, lambda each, _: received.append(each))
            os.kill(os.getppid(), number)
            until = time.monotonic() + 10
            while number not in received and time.monotonic() < until:
                time.sleep(0.01)
        print(received)
        sys.exit(received != {list(map(int, numbers))})
    """
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup, where it reaches no program
    try:
        result = record_loop(tmp_path, steps=2, each=each)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (result.status, result.error, result.exit_code) == ("ok", None, 0)


def test_data_loading_processes_are_not_recorded(tmp_path: Path) -> None:
    after = "for batch in torch.utils.data.DataLoader(range(8), num_workers=2): model(torch.ones(2, 4))"
    result = record_loop(tmp_path, steps=2, after=after)
    assert (result.status, list(described(result)["ranks"])) == ("ok", ["0"])
    assert names(result)["aten::addmm"] == 10


def test_options_of_kineto_reach_the_program(tmp_path: Path) -> None:
    options = KinetoOptions(shapes=True, flops=True, stacks=True, memory=True)
    result = record_loop(tmp_path, steps=20, kineto=options)  # torch 2.13 may then have names that are not UTF-8
    assert (result.status, result.error) == ("ok", None)
    ops = json.loads((result.folder / "ops.rank0.json").read_text())["ops"]
    assert [(op["calls"], op["flop"]) for op in ops if op["name"] == "aten::addmm"] == [(20, 20 * 2 * 2 * 4 * 4)]
    counted = names(result)
    assert counted["aten::addmm"] == 20
    assert any(".py(" in name for name in counted)


def test_a_program_without_python_has_samples_and_a_status(tmp_path: Path) -> None:
    result = record(tmp_path, "sleep", "0.2", profiler="none", sample_s=0.1)
    assert result.status == "ok"
    assert len((result.folder / "host_samples.0.jsonl").read_text().splitlines()) > 2


@pytest.mark.usefixtures("_programs_in_new_processes")
def test_several_profilers_record_runs_that_queries_join_by_their_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ().items():
        monkeypatch.setenv(name, value)
    command = (sys.executable, str(PROGRAM), *STEP)
    settings = ProgramSettings(command, ("none", "nsys", "ncu"), out=tmp_path / "runs", run="r", sample_s=0)
    results = run_program(settings)
    assert [(result.folder.name, result.status) for result in results] == [
        ("r-none", "ok"),
        ("r-nsys", "ok"),
        ("r-ncu", "ok"),
    ]
    contents = [described(result) for result in results]
    assert len({content["program"] for content in contents}) == 1
    assert "--launch-count 1000" in " ".join(contents[2]["capture"]["tool_command"])
    assert (results[1].folder / "program.sqlite").exists()
    assert (results[2].folder / "program.ncu.csv").exists()
    assert pipeline.ingest([tmp_path / "runs"], tmp_path / "lab").exit_code == 0
    lab = Lab(tmp_path / "lab")
    assert lab.sql("select run, profiler from runs order by 1").pl().rows() == [
        ("r-ncu", "ncu"),
        ("r-none", "none"),
        ("r-nsys", "nsys"),
    ]
    for named in (None, "r-none", "r-nsys", "r-ncu"):
        assert set(lab.query("roofline", run=named).pl()["run"]) == {"r-ncu"}
        assert lab.query("mfu", run=named).pl().select("run", "ncu_run").rows() == [("r-nsys", "r-ncu")]
        assert set(lab.query("kernel_flop", run=named).pl().select("run", "ncu_run").rows()) == {("r-nsys", "r-ncu")}
    with open_report_session(tmp_path / "lab", ("r-ncu", "r-none", "r-nsys")) as session:
        assert session.has_rows(("kernel_metrics",))
        mfu = session.run(library()["mfu"], {})
        assert mfu.table is not None
        assert mfu.table["run"].to_pylist() == ["r-nsys"]
    with open_report_session(tmp_path / "lab", ("r-nsys",)) as session:
        assert session.has_rows(("kernel_metrics",))
    assert "Timelines of the same program take them: r-nsys." in " ".join(summarize(tmp_path).split())


@pytest.mark.usefixtures("_programs_in_new_processes")
def test_seconds_become_options_of_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environ().items():
        monkeypatch.setenv(name, value)
    options: dict[str, Any] = {"sample_s": 0, "out": tmp_path, "window": Window(after_s=1.5, for_s=2)}
    command = (sys.executable, str(PROGRAM), *STEP)
    (nsys,) = run_program(ProgramSettings(command, ("nsys",), run="r", **options))
    words = described(nsys)["capture"]["tool_command"]
    assert [word for word in words if word.startswith(("--delay", "--duration", "--kill", "--wait"))] == [
        "--delay=2",
        "--duration=2",
        "--kill=none",
        "--wait=all",
    ]


@pytest.mark.usefixtures("_programs_in_new_processes")
def test_ranks_of_multiprocessing_are_recorded_from_their_first_step(tmp_path: Path) -> None:
    script = EXAMPLE.with_name("spawned.py")
    result = record(tmp_path, sys.executable, str(script), str(tmp_path / "rendezvous"))
    assert (result.status, result.error) == ("ok", None)
    content = described(result)
    assert (content["world_size"], list(content["ranks"])) == (2, ["0", "1"])
    for rank in range(2):
        assert recorded_steps(result, f"rank{rank}.pt.trace.json.gz") == [1, 2, 3, 4, 5]
        assert [row["step"] for row in step_rows(result, rank)] == [1, 2, 3, 4, 5]


def test_a_script_whose_arguments_name_a_launcher_is_recorded(tmp_path: Path) -> None:
    script = tmp_path / "multiprocessing_demo.py"
    script.write_text(LOOP.format(steps=2, each="pass", after=""))
    result = record(tmp_path, sys.executable, str(script), "accelerate", "torchrun")
    assert (result.status, names(result)["aten::addmm"]) == ("ok", 2)


def ingest(tmp_path: Path, result: Result) -> Lab:
    report = pipeline.ingest([result.folder], tmp_path / "lab")
    assert report.exit_code == 0, [file.message for file in report.files]
    return Lab(tmp_path / "lab")


def summarize(tmp_path: Path) -> str:
    done = CliRunner().invoke(main, ["summary", "--store", str(tmp_path / "lab")])
    assert done.exit_code == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("_programs_in_new_processes")
def test_an_unmodified_example_is_recorded_ingested_and_summarized(tmp_path: Path) -> None:
    result = record(tmp_path, sys.executable, str(EXAMPLE), "--steps", "6", kineto=KinetoOptions(shapes=True))
    assert (result.status, result.error) == ("ok", None)
    assert recorded_steps(result) == [1, 2, 3, 4, 5]
    lab = ingest(tmp_path, result)
    assert lab.sql("select count(*) as n from ops where name = 'aten::convolution'").pl().rows() == [(12,)]
    assert lab.sql("select program, status, world_size, profiler from runs").pl().rows() == [
        (f"{Path(sys.executable).name} mnist.py --steps 6", "ok", 1, "kineto")
    ]
    assert lab.sql("select count(*) from steps where phase = 'train'").pl().rows() == [(5,)]
    assert "aten::" in summarize(tmp_path)


@pytest.mark.usefixtures("_programs_in_new_processes")
def test_two_ranks_of_torchrun_are_recorded_each_and_one_that_is_killed_is_named(tmp_path: Path) -> None:
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    command = (*torchrun, str(EXAMPLE), "--steps", "6", "--kill-rank", "1")
    result = record(tmp_path, *command, window=Window(wait=2, active=2))
    assert (result.status, result.error) == ("failed", "rank 1: killed by SIGKILL")
    content = described(result)
    assert (content["world_size"], content["expects"]["ranks"]) == (2, [0, 1])
    for rank in range(2):
        name = f"rank{rank}.pt.trace.json.gz"
        trace = json.loads(gzip.decompress((result.folder / name).read_bytes()))
        assert trace["distributedInfo"]["rank"] == rank
        assert recorded_steps(result, name) == [2, 3]
    lab = ingest(tmp_path, result)
    assert lab.sql(
        "select rank, count(*) from annotations where name like 'ProfilerStep#%' group by 1 order by 1"
    ).pl().rows() == [
        (0, 2),
        (1, 2),
    ]
    assert "2 ranks" in summarize(tmp_path)
