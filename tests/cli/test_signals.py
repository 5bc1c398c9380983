"""Ctrl-C and SIGTERM at any moment: the exit code and the sentence of an interrupt, and nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tracelab import temp_folders

STOPS = [(signal.SIGINT, 130, "tracelab: interrupted\n"), (signal.SIGTERM, 143, "")]
SIGNALED_IMPORT = """
import sys
from tracelab import cli
def import_module(**_):
    import signaled
cli.main = import_module
cli.run()
"""
SIGNALED_MODULE = """
import os
class Signal:
    def __set_name__(self, owner, name):
        os.kill(os.getpid(), {number:d})
class Import:
    field = Signal()
"""
DAMAGED = '{"ph":"X","cat":"cpu_op","name":"a"b","pid":1,"tid":1,"ts":1},'


def start(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    """Start Python in a folder that is also its folder for temporary files."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(("number", "code", "sentence"), STOPS)
def test_a_signal_during_an_import_prints_no_traceback(
    tmp_path: Path, number: signal.Signals, code: int, sentence: str
) -> None:
    (tmp_path / "signaled.py").write_text(SIGNALED_MODULE.format(number=number))
    process = start("-c", SIGNALED_IMPORT, folder=tmp_path)
    assert (process.communicate()[1], process.returncode) == (sentence, code)


def test_ctrl_c_before_the_command_line_is_imported_prints_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text(f"import os\nos.kill(os.getpid(), {signal.SIGINT:d})\n")
    process = start("-m", "tracelab", folder=tmp_path)
    assert (process.communicate()[1], process.returncode) == ("tracelab: interrupted\n", 130)


@pytest.mark.parametrize(("number", "code", "sentence"), STOPS)
def test_the_recovery_of_a_damaged_trace_stops_at_once(
    tmp_path: Path, number: signal.Signals, code: int, sentence: str
) -> None:
    text = '{"traceEvents":[' + DAMAGED * 240_000 + "{}]}"  # 15 MB: one chunk, whose recovery takes some seconds
    (tmp_path / "trace.json").write_text(text)
    process = start("-m", "tracelab", "ingest", "trace.json", "--store", "lab", folder=tmp_path)
    while not list(tmp_path.glob("lab/.staging/*/")):
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.5)
    before = time.monotonic()
    process.send_signal(number)
    assert (process.communicate()[1], process.returncode) == (sentence, code)
    assert time.monotonic() - before < 1.5
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"trace.json", "lab/commits/0000000001.json"}  # which reserves the name of the run


def test_a_temporary_folder_is_deleted_if_its_creation_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    created: list[Path] = []
    monkeypatch.setattr(temp_folders, "_created", created)
    monkeypatch.setattr(temp_folders.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(temp_folders.fcntl, "flock", interrupt)
    with pytest.raises(KeyboardInterrupt):
        temp_folders._create_locked()
    assert list(tmp_path.iterdir()) != []
    temp_folders.delete_process_folder()
    assert list(tmp_path.iterdir()) == []
