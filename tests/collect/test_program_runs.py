"""Any program ends in a run folder: what it recorded, its steps, and the status that it truly has."""

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.collect.test_nvidia_captures import PROGRAM, STEP, environ
from tests.needs import needs_torch
from tracelab.cli import main
from tracelab.client import Lab
from tracelab.collect.program import run as program_run
from tracelab.collect.program.process import RECORDING, STARTUP
from tracelab.collect.program.run import run_program
from tracelab.collect.program.settings import ProgramSettings, shown_words, validate_program
from tracelab.collect.recording.hook import find_program
from tracelab.collect.recording.profilers import KinetoOptions
from tracelab.collect.recording.ranks import Rank, find_rank
from tracelab.collect.recording.window import Window
from tracelab.collect.run_end import Result
from tracelab.errors import TracelabError, UsageError
from tracelab.ingest import pipeline
from tracelab.query.library import library
from tracelab.report.answers import open_report_session

pytestmark = [needs_torch, pytest.mark.usefixtures("_forked_programs")]

EXAMPLE = Path(__file__).parent / "programs" / "mnist.py"
LOOP = """
import os, resource, signal, sys, time
import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range({steps}):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    {each}
{after}
"""


def record(folder: Path, *command: str, run: str = "r", profiler: str = "kineto", **options: Any) -> Result:
    options = {"sample_s": 0.0, "timeout_s": 60.0} | options
    (result,) = run_program(ProgramSettings(command, (profiler,), out=folder, run=run, **options))
    return result


def record_loop(folder: Path, steps: int = 6, each: str = "", after: str = "", **options: Any) -> Result:
    script = folder / "loop.py"
    script.write_text(LOOP.format(steps=steps, each=each or "pass", after=after))
    return record(folder, sys.executable, str(script), **options)


def described(result: Result) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((result.folder / "run.json").read_text())
    return content


def names(result: Result, name: str = "rank0.pt.trace.json.gz") -> Counter[str]:
    content = json.loads(gzip.decompress((result.folder / name).read_bytes()))
    return Counter(event["name"] for event in content["traceEvents"] if event.get("ph") == "X")


def recorded_steps(result: Result, name: str = "rank0.pt.trace.json.gz") -> list[int]:
    counts = names(result, name)
    return sorted(int(each.partition("#")[2]) for each in counts if each.startswith("ProfilerStep#"))


def step_rows(result: Result, rank: int = 0) -> list[dict[str, Any]]:
    lines = (result.folder / f"steps.rank{rank}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines[1:]]


@pytest.fixture
def _processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the programs of one test as `collect run` does."""
    from tracelab.collect.program import process

    monkeypatch.setattr(process, "subprocess", subprocess)


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


def test_a_program_that_ends_before_its_window_has_that_as_status(tmp_path: Path) -> None:
    result = record_loop(tmp_path, steps=3, window=Window(wait=10, active=2))
    assert (result.status, result.error) == (
        "profiler_error",
        "the program ended after 3 optimizer steps, before the window opened: "
        "2 optimizer steps after 10 optimizer steps",
    )


@pytest.mark.parametrize(
    ("each", "status", "error"),
    [
        ("if step == 3: raise MemoryError", "oom", "memory ran out"),
        ("if step == 3: torch.empty(1 << 46)", "oom", "DefaultCPUAllocator: can't allocate memory"),
        ("if step == 3: raise KeyError('height')", "failed", "KeyError: 'height'"),
    ],
)
def test_an_error_is_the_status_and_the_recording_before_it_is_kept(
    tmp_path: Path, each: str, status: str, error: str
) -> None:
    result = record_loop(tmp_path, each=each)
    assert result.status == status
    assert error in str(result.error)
    assert names(result)["aten::addmm"] == 4
    assert "Error" in (result.folder / "rank0.log").read_text()


def test_a_killed_program_keeps_the_windows_before(tmp_path: Path) -> None:
    each = "if step == 5: time.sleep(0.6); os.kill(os.getpid(), signal.SIGKILL)"
    result = record_loop(tmp_path, each=each, window=Window(wait=1, active=2))
    assert (result.status, result.error) == ("failed", "killed by SIGKILL")
    assert recorded_steps(result) == [1, 2]
    assert [row["step"] for row in step_rows(result)][:2] == [1, 2]


def test_a_terminated_program_of_one_process_blames_no_other_rank(tmp_path: Path) -> None:
    result = record_loop(tmp_path, each="if step == 4: os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)")
    assert (result.status, result.error) == ("failed", "ended by SIGTERM")
    assert names(result)["aten::addmm"] == 5


def test_run_json_has_the_window_that_the_profiler_records(tmp_path: Path) -> None:
    def window(profiler: str, **options: float) -> str | None:
        chosen: str | None = program_run._describe_window(
            ProgramSettings(("true",), window=Window(**options)), profiler
        )
        return chosen

    assert window("kineto") == "the first 20 optimizer steps or 30 s"
    assert window("kineto", wait=1, active=1) == "1 optimizer step after 1 optimizer step"
    assert (window("nsys"), window("nsys", for_s=2)) == ("the whole program", "the first 2 s")
    assert (window("ncu"), window("none")) == ("the first 1000 kernel launches", None)
    result = record(tmp_path, "true", profiler="none")
    assert described(result)["capture"]["window"] is None


def test_a_killed_program_whose_window_is_open_loses_it_and_the_message_names_that(tmp_path: Path) -> None:
    result = record_loop(tmp_path, each="if step == 3: os.kill(os.getpid(), signal.SIGKILL)")
    assert (result.status, result.error) == (
        "failed",
        "killed by SIGKILL; its recording is lost, because a process saves it when Python exits",
    )
    rank = described(result)["ranks"]["0"]
    assert (rank["steps"], rank["windows"], rank.get("note")) == (4, 0, None)
    assert [row["step"] for row in step_rows(result)] == [1, 2, 3]


def test_a_program_that_leaves_python_by_os_exit_keeps_its_recording(tmp_path: Path) -> None:
    result = record_loop(tmp_path, steps=4, after="os._exit(3)")
    assert (result.status, result.error) == ("failed", "ended with exit code 3")
    assert recorded_steps(result) == [1, 2, 3]
    assert [row["step"] for row in step_rows(result)] == [1, 2, 3]


def test_os_exit_does_not_wait_for_a_gpu_that_hangs(tmp_path: Path) -> None:
    hang = "from tracelab.collect.recording import hook, os_exit; os_exit._LIMIT_S = 0.2; "
    hang += "hook._recordings[0].recorder.finish = lambda: time.sleep(60); os._exit(5)"
    result = record_loop(tmp_path, steps=2, after=hang)
    assert result.error == (
        "ended with exit code 5; its recording is lost, because a process saves it when Python exits"
    )


def test_a_process_that_executes_another_program_loses_its_recording(tmp_path: Path) -> None:
    result = record_loop(tmp_path, after="os.execv('/bin/true', ['true'])")
    assert (result.status, result.error) == (
        "profiler_error",
        "the process ended by exec or a library's _exit, or was killed; its recording is lost, because a process saves "
        "it when Python exits",
    )


def test_a_program_that_handles_the_signal_of_requests_itself_has_a_note(tmp_path: Path) -> None:
    each = "signal.signal(signal.SIGUSR1, signal.SIG_IGN)"
    result = record_loop(tmp_path, steps=2, each=each, window=Window(on_demand=True))
    assert result.note is not None
    assert result.note.startswith("the program handles SIGUSR1 itself; send it to tracelab collect run")


@pytest.mark.usefixtures("_processes")
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


def test_the_time_limit_keeps_the_recording(tmp_path: Path) -> None:
    for limit_s in (3.0, 12.0, 60.0):  # a busy machine may take longer to begin
        result = record_loop(tmp_path, each="if step == 3: time.sleep(600)", timeout_s=limit_s, force=True)
        if (result.folder / "rank0.pt.trace.json.gz").exists() and names(result)["aten::addmm"] == 4:
            break
    assert (result.status, result.error) == ("timeout", "reached the time limit; what was recorded before it is kept")
    assert names(result)["aten::addmm"] == 4


def test_a_disk_that_fills_up_is_the_status_and_leaves_no_half_trace(tmp_path: Path) -> None:
    result = record_loop(tmp_path, each="resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))", steps=40)
    assert (result.status, result.error) == (
        "failed",
        "a file in the scratch folder (TMPDIR) reached the file size limit; raise it (ulimit -f) and run again; "
        "its recording is lost",
    )
    assert not list(result.folder.glob("*trace*"))
    rank = described(result)["ranks"]["0"]
    assert (rank["steps"], rank["recorded_steps"], rank["windows"]) == (40, 0, 0)


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


@pytest.mark.parametrize(
    ("command", "status", "error"),
    [
        (("sh", "-c", "echo no; exit 3"), "failed", "ended with exit code 3"),
        (("sh", "-c", "kill -9 $$"), "failed", "killed by SIGKILL"),
        (("sh", "-c", "echo 'CUDA out of memory. Tried to allocate 2 GiB' >&2; exit 1"), "oom", "CUDA out of memory."),
        (("sh", "-c", "echo 'write: No space left on device' >&2; exit 1"), "failed", "the disk is full or over quota"),
        (("true",), "profiler_error", "no Python in it read the start-up hook"),
    ],
)
def test_the_end_of_any_program_is_its_status(
    tmp_path: Path, command: tuple[str, ...], status: str, error: str
) -> None:
    result = record(tmp_path, *command)
    assert (result.status, error in str(result.error)) == (status, True), result.error
    assert "no" not in str(result.error).split(": ")


def test_a_python_that_ignores_the_environment_is_named(tmp_path: Path) -> None:
    result = record(tmp_path, sys.executable, "-I", "-c", "pass")
    assert (result.status, "runs Python with -I, -E or -S" in str(result.error)) == ("profiler_error", True)


def test_ctrl_c_keeps_the_recording(tmp_path: Path) -> None:
    main = threading.get_ident()

    def interrupt() -> None:
        while not list(tmp_path.glob("r/.processes/*/record.json")):
            time.sleep(0.02)
        time.sleep(0.5)
        signal.pthread_kill(main, signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    result = record_loop(tmp_path, each="if step == 3: time.sleep(600)")
    interrupter.join()
    assert (result.status, result.error, result.interrupted) == ("failed", "interrupted", signal.SIGINT)
    assert names(result)["aten::addmm"] == 4


@pytest.mark.usefixtures("_processes")
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


@pytest.mark.usefixtures("_processes")
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


def test_a_missing_profiler_is_refused_before_the_first_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACELAB_NSYS", str(tmp_path / "nsys"))
    with pytest.raises(TracelabError, match="nsys cannot be started: No such file or directory"):
        run_program(ProgramSettings(("true",), ("none", "nsys"), out=tmp_path / "runs", run="r", sample_s=0))
    assert not (tmp_path / "runs").exists()


def test_a_program_that_is_stuck_in_a_library_ends_at_the_time_limit_and_names_its_loss(tmp_path: Path) -> None:
    lock = "import ctypes; mutex = ctypes.create_string_buffer(64); lock = ctypes.CDLL(None).pthread_mutex_lock"
    begun = time.monotonic()
    result = record_loop(tmp_path, steps=2, after=f"{lock}; lock(mutex); lock(mutex)", timeout_s=2.0)
    assert (result.status, result.error) == (
        "timeout",
        "reached the time limit; nothing was recorded before it; "
        "its recording is lost: a library did not return after SIGTERM",
    )
    assert time.monotonic() - begun < 15


@pytest.mark.usefixtures("_processes")
def test_ranks_of_multiprocessing_are_recorded_from_their_first_step(tmp_path: Path) -> None:
    script = EXAMPLE.with_name("spawned.py")
    result = record(tmp_path, sys.executable, str(script), str(tmp_path / "rendezvous"))
    assert (result.status, result.error) == ("ok", None)
    content = described(result)
    assert (content["world_size"], list(content["ranks"])) == (2, ["0", "1"])
    for rank in range(2):
        assert recorded_steps(result, f"rank{rank}.pt.trace.json.gz") == [1, 2, 3, 4, 5]
        assert [row["step"] for row in step_rows(result, rank)] == [1, 2, 3, 4, 5]


def test_a_process_without_torch_runs_its_own_sitecustomize_and_imports_nothing_of_tracelab(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.own = 'own'")
    look = "import sys, importlib.util; importlib.util.find_spec('torch')"
    look += "; print(sys.own, [name for name in sys.modules if name.startswith(('torch', 'tracelab'))])"
    path = os.pathsep.join([str(STARTUP), str(tmp_path)])
    environment = os.environ | {"PYTHONPATH": path, RECORDING: str(tmp_path / "task.json")}
    done = subprocess.run([sys.executable, "-c", look], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("own []\n", "")
    assert (tmp_path / "python-started").exists()


def test_run_json_has_neither_folders_nor_secrets_of_the_command() -> None:
    words = [
        "/opt/venv/bin/python",
        "/home/me/train.py",
        "--data=/data/x",
        "--api-key",
        "abc",
        "--token=abc",
        "--lr",
        "1",
    ]
    assert shown_words(words) == ["python", "train.py", "--data=x", "--api-key", "***", "--token=***", "--lr", "1"]
    assert ProgramSettings(tuple(words)).program == "python train.py --data=x --api-key *** --token=*** --lr 1"


def test_the_program_keeps_the_quotes_that_a_shell_needs() -> None:
    command = ("bash", "-c", "python acc.py && python infer.py")
    assert ProgramSettings(command).program == "bash -c 'python acc.py && python infer.py'"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"command": ()}, "no command to run"),
        ({"command": ("no-such-program",)}, "no such program on PATH"),
        ({"profilers": ("nsys", "nsys")}, "names one profiler twice"),
        ({"profilers": ("nsys",), "kineto": KinetoOptions(shapes=True)}, "need --profiler kineto"),
        ({"window": Window(cycles=2)}, "--cycles needs --wait or --after-s"),
        ({"window": Window(on_demand=True, cycles=2)}, "remove --cycles"),
        ({"window": Window(active=0)}, "must be above 0"),
        ({"profilers": ("kineto", "ncu"), "window": Window(for_s=2)}, "ncu cannot record by seconds; choose --wait"),
        ({"profilers": ("none",), "window": Window(wait=3)}, "--profiler none records no window; remove the options"),
    ],
)
def test_an_impossible_request_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        validate_program(ProgramSettings(**{"command": ("true",)} | options))


def test_a_recording_inside_of_another_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACELAB_RECORDING", "/run/task.json")
    with pytest.raises(UsageError, match="recorded by another tracelab collect run"):
        validate_program(ProgramSettings(("true",)))


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}, Rank(3, 4, 1, known=True)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, Rank(1, 2, 0, known=True)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1"}, Rank(1, 2, 1, known=True)),
        ({"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_ID": "0"}, Rank(5, 8, 0, known=True)),
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_ID": "4294967291"}, Rank()),
        ({"RANK": "x", "WORLD_SIZE": "4"}, Rank()),
    ],
)
def test_a_rank_is_that_of_its_launcher(environment: dict[str, str], rank: Rank) -> None:
    assert find_rank(environment) == rank


@pytest.mark.parametrize(
    ("words", "program"),
    [
        ("python train.py accelerate", "train.py"),
        ("python -u -X dev -m torch.distributed.run train.py", "torch.distributed.run"),
        ("python -W error /opt/bin/torchrun -m train", "/opt/bin/torchrun"),
        ("python", ""),
        ("python -", ""),
    ],
)
def test_the_program_of_python_is_its_first_word_that_is_no_option(words: str, program: str) -> None:
    assert find_program(words.split()) == program


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


@pytest.mark.usefixtures("_processes")
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


@pytest.mark.usefixtures("_processes")
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
