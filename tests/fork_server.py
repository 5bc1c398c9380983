"""Start processes of a test as forks of one that has imported torch, which takes longer than a test trains.

They are ranks of training and of collectives, recorded scripts, and stand-ins of nsys and ncu, which fork their rank.
The server is a child of the test process. A fork is a grandchild of it whose parent has ended, so that Linux hands it
to the test process, which then waits for it as `subprocess` does.
"""

import atexit
import contextlib
import ctypes
import faulthandler
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import traceback
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

WORKER = "tracelab.collect.training.worker"
_MODULES = {WORKER: "rank", "tracelab.collect.ceilings.links": "collective"}
"""What a fork does in place of `python -m MODULE`."""
FAKES = Path(__file__).parent / "collect" / "fakes"
_MESSAGE_BYTES = 128 << 10
_MOST_FILES = 16
_PR_SET_CHILD_SUBREAPER = 36


class ForkedProcess:
    """What `tracelab.collect` uses of a `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout: IO[bytes] | None = None
        self.stderr: IO[bytes] | None = None

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self._wait(os.WNOHANG)

    def wait(self) -> int | None:
        """Wait for its end."""
        return self._wait(0)

    def terminate(self) -> None:
        """Send SIGTERM."""
        os.kill(self.pid, signal.SIGTERM)

    def _wait(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


class ForkServer:
    """A process that has imported torch, and forks."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())]
            self._server = subprocess.Popen(command, pass_fds=[theirs.fileno()])

    def close(self) -> None:
        """End the server."""
        self._socket.close()
        self._server.wait()

    def popen(self, argv: list[str], *, env: Mapping[str, str], stdin: int, stdout: IO[bytes], **options: Any) -> Any:
        """Start a rank, or a stand-in of nsys or ncu around one, as a fork; other programs as `subprocess` does."""
        streams = [stdin, stdout.fileno(), stdout.fileno()]
        module = next((each for each in argv if each in _MODULES), None)
        if module and argv[0] == sys.executable:
            return self._fork(_MODULES[module], argv[argv.index(module) + 1 :], env, streams)
        if module and (tool := FAKES / argv[0]).exists():
            return self._fork("tool", [str(tool), *argv[1:]], env, streams)
        return subprocess.Popen(argv, env=env, stdin=stdin, stdout=stdout, **options)

    def popen_program(self, argv: list[str], *, env: Mapping[str, str], **options: Any) -> Any:
        """Start a Python script of one recorded program as a fork, and every other program as `subprocess` does."""
        if argv[0] != sys.executable or not argv[1].endswith(".py"):
            return subprocess.Popen(argv, env=env, **options)
        if options.get("stdout", subprocess.PIPE) != subprocess.PIPE:  # a terminal
            return subprocess.Popen(argv, env=env, **options)
        pipes = os.pipe(), os.pipe()
        with Path(os.devnull).open("rb") as nothing:
            process = self._fork("program", argv, env, [nothing.fileno(), *(write for _, write in pipes)])
        for _, write in pipes:
            os.close(write)
        process.stdout, process.stderr = (os.fdopen(read, "rb") for read, _ in pipes)
        return process

    def _fork(self, kind: str, arguments: list[str], env: Mapping[str, str], streams: list[int]) -> ForkedProcess:
        inherited = [int(path.name) for path in Path("/proc/self/fd").iterdir()]
        files = [*streams, *(number for number in inherited if number > 2 and _is_inheritable(number))]
        message = json.dumps([kind, arguments, dict(env), str(Path.cwd())]).encode()
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        # A fork may signal this process before the answer is read, which then would be that of the next fork.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            socket.send_fds(self._socket, [message], files)
            return ForkedProcess(int(self._socket.recv(_MESSAGE_BYTES)))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            libc.prctl(_PR_SET_CHILD_SUBREAPER, 0)  # orphans of other tests go to init, which reaps them


def _is_inheritable(number: int) -> bool:
    try:
        return os.get_inheritable(number)
    except OSError:  # the folder /proc/self/fd itself
        return False


def _serve(requests: socket.socket) -> None:
    gc.disable()
    import psutil  # noqa: F401
    from torch import _dynamo  # noqa: F401  the first optimizer imports it
    from torch.profiler import _cupti_monitor  # noqa: F401
    from torch.utils import flop_counter  # noqa: F401

    from tests.collect.fake_cuda import libraries  # noqa: F401
    from tracelab.collect.training import worker  # noqa: F401
    from tracelab.collect.workloads import find_workload, load_module

    path = [*sys.path]
    from tracelab.collect.recording import hook  # noqa: F401

    with contextlib.suppress(ModuleNotFoundError):  # torchvision, which few workloads need
        load_module(find_workload("image_classification")).torchvision()
    _warm_up(load_module(find_workload("decoder")))
    sys.path[:] = path
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        finalizer.atexit = False  # those of torch take a tenth of a second at the end of each fork
    gc.collect()
    gc.freeze()  # else each fork looks at the million objects of torch, and copies the pages that they lie on
    gc.enable()

    while True:
        message, files, _, _ = socket.recv_fds(requests, _MESSAGE_BYTES, _MOST_FILES)
        if not message:
            return
        kind, arguments, environment, folder = json.loads(message)
        read, write = os.pipe()
        if middle := os.fork():
            os.waitpid(middle, 0)
            requests.send(os.read(read, 32))
        elif child := os.fork():
            os.write(write, str(child).encode())
            os._exit(0)
        else:
            requests.close()
            os.setsid()
            _become(kind, arguments, environment, folder, files[:3])
        for number in (read, write, *files):
            os.close(number)


def _warm_up(decoder: Any) -> None:
    """Count the FLOPs of a model: torch decomposes and registers each operator on meta tensors once in a process."""
    import torch

    from tracelab.collect.training.model_cost import count_model_cost

    settings = decoder.Settings(context=8, layers=1)
    sample = decoder.data(settings, train=True)[0]
    count_model_cost(torch, lambda: decoder.model(settings), decoder.workload, sample)


def _become(kind: str, arguments: list[str], environment: dict[str, str], folder: str, files: list[int]) -> None:
    import torch

    os.chdir(folder)
    for target, number in enumerate(files):
        os.dup2(number, target)
    os.environ.clear()
    os.environ.update(environment)
    faulthandler.enable()
    torch.set_num_threads(int(environment.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    code: int | str | None = 1
    try:
        _RUNNERS[kind](arguments)
        code = 0
    except SystemExit as error:
        code = error.code
    except BaseException as error:  # noqa: BLE001  as the interpreter does
        sys.last_value = error
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


def _run_rank(arguments: list[str]) -> None:
    from tests.collect import fake_cuda
    from tracelab.collect.training import worker

    fake_cuda.install_from_environment(Path(arguments[0]).name)
    worker.main(Path(*arguments))


class _RankOfTool:
    """What the stand-ins of nsys and ncu use of a `subprocess.Popen`: a rank as a fork of the stand-in."""

    def __init__(self, argv: list[str], *, env: dict[str, str], start_new_session: bool = False) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            if start_new_session:
                os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _become("rank", argv[argv.index(WORKER) + 1 :], env, str(Path.cwd()), [0, 1, 2])

    def wait(self) -> int:
        """Wait for its end."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def terminate(self) -> None:
        """Send SIGTERM."""
        os.kill(self.pid, signal.SIGTERM)


def _run_collective(arguments: list[str]) -> None:
    from tests.collect import fake_cuda
    from tracelab.collect.ceilings import links

    folder, rank = arguments
    fake_cuda.install_from_environment(rank)
    links.main(Path(folder), int(rank))


def _run_tool(arguments: list[str]) -> None:
    sys.argv = arguments
    subprocess.Popen = _RankOfTool  # type: ignore[assignment, misc]
    runpy.run_path(arguments[0], run_name="__main__")


def _run_script(arguments: list[str]) -> None:
    """Run a script as `python script.py` does where the start-up hook has seen the import of torch."""
    import torch

    from tracelab.collect.recording.hook import install

    sys.orig_argv, sys.argv = arguments, arguments[1:]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if task := os.environ.get("TRACELAB_RECORDING"):
        (Path(task).parent / "python-started").touch()
        install(task, torch)
    runpy.run_path(arguments[1], run_name="__main__")


_RUNNERS = {"rank": _run_rank, "collective": _run_collective, "tool": _run_tool, "program": _run_script}


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _serve(socket.socket(fileno=int(sys.argv[1])))
