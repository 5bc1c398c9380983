"""A status is a result: what errors, signals and other ranks make of a run."""

import errno
import signal
from pathlib import Path

import pytest

from tracelab.collect.disk_errors import WritePaths
from tracelab.collect.process.launch import ProcessExit
from tracelab.collect.status import has_gpu_work, hide_home, rank_outcome, run_status, status_of_error, status_of_exit


class OutOfMemoryError(RuntimeError):
    """As torch names its own."""


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (MemoryError(), "oom"),
        (OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."), "oom"),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:129] DefaultCPUAllocator: can't allocate memory"), "oom"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), "oom"),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), "failed"),
        (ValueError("out of memory"), "failed"),
        (OSError(errno.ENOSPC, "No space left on device"), "failed"),
    ],
)
def test_an_error_has_a_status(error: BaseException, status: str) -> None:
    assert status_of_error(error)[0] == status


def test_the_advice_of_an_error_of_cuda_is_left_out() -> None:
    error = RuntimeError(
        "CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert' in https://docs.nvidia.com for more "
        "information.\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace "
        "below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
    )
    assert status_of_error(error) == ("failed", "RuntimeError: CUDA error: device-side assert triggered")


PLACES = WritePaths(Path("runs/r"), Path("scratch/tracelab-1/0"))
FULL, LIMIT = (errno.ENOSPC, "No space left on device"), (errno.EFBIG, "File too large")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(*FULL), "the disk is full or over quota; free space and run again"),
        (OSError(*FULL, "/data/cache"), "the disk of cache is full or over quota; free space and run again"),
        (
            OSError(*FULL, str(Path("runs/r/steps.rank0.jsonl").absolute())),
            "the disk of the run folder (--out) is full or over quota; free space and run again",
        ),
        (
            OSError(*FULL, "scratch/tracelab-1/0/trace.json"),
            "the scratch disk (TMPDIR) is full or over quota; free space there or set TMPDIR to another disk, "
            "and run again",
        ),
        (
            OSError(*LIMIT, "scratch/tracelab-1/0/trace.json"),
            "a file in the scratch folder (TMPDIR) reached the file size limit; raise it (ulimit -f) and run again",
        ),
    ],
)
def test_a_full_disk_is_reported_with_which_one_and_what_to_do(error: OSError, said: str) -> None:
    assert status_of_error(error, PLACES) == ("failed", said)


@pytest.mark.parametrize(
    ("end", "killed_for_memory", "said"),
    [
        (
            ProcessExit(0, -signal.SIGKILL, "itself", ""),
            True,
            ("oom", "the system ran out of memory and killed the process"),
        ),
        (
            ProcessExit(0, -signal.SIGSEGV, "itself", "Fatal\n"),
            False,
            ("failed", "killed by SIGSEGV; last line of output: Fatal"),
        ),
        (ProcessExit(0, 3, "itself", ""), False, ("failed", "ended with exit code 3 and no output")),
        (
            ProcessExit(0, 1, "itself", "a\nImportError: no torch\n\n"),
            False,
            ("failed", "ended with exit code 1: ImportError: no torch"),
        ),
        (ProcessExit(1, -signal.SIGTERM, "others", ""), False, ("failed", "terminated because another rank failed")),
    ],
)
def test_a_process_that_could_say_nothing_has_a_status(
    end: ProcessExit, killed_for_memory: bool, said: tuple[str, str]
) -> None:
    assert status_of_exit(end, killed_for_memory) == said


def test_a_process_that_does_not_stop_ran_out_of_time() -> None:
    assert status_of_exit(ProcessExit(0, -signal.SIGKILL, "timeout", ""), False)[0] == "timeout"


def test_profiling_that_is_not_permitted_is_reported_with_the_cure() -> None:
    status, error = status_of_exit(ProcessExit(0, 1, "itself", "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"), False)
    assert (status, "NVreg_RestrictProfilingToAdminUsers=0" in error) == ("permission_denied", True)


def test_of_several_ranks_the_cause_counts_and_not_what_it_caused() -> None:
    caused = {"status": "failed", "error": "Connection closed by peer", "at": 2.0}
    assert run_status({0: caused, 1: {"status": "oom", "error": "no memory", "at": 1.0}}) == (
        "oom",
        "rank 1: no memory",
    )


def test_of_two_failures_the_first_counts() -> None:
    ranks = {0: {"status": "failed", "error": "closed", "at": 2.0}, 1: {"status": "failed", "error": "boom", "at": 1.0}}
    assert run_status(ranks) == ("failed", "rank 1: boom")


KILLED = {"status": "failed", "error": "killed by SIGKILL"}
RESET = {"status": "failed", "error": "RuntimeError: [gloo/pair.cc:588] Connection reset by peer", "at": 1.0}
VANISHED = {"status": "failed", "error": "its process ended without writing an outcome", "vanished": True}
ENDED = {"status": "failed", "error": "terminated because another rank failed", "collateral": True, "at": 0.5}


@pytest.mark.parametrize(
    ("outcomes", "error"),
    [
        ({0: RESET, 1: KILLED, 2: ENDED}, "rank 1: killed by SIGKILL"),
        ({0: RESET, 1: VANISHED, 2: ENDED}, "rank 1: its process ended without writing an outcome"),
        ({0: ENDED, 1: RESET}, "rank 1: RuntimeError: [gloo/pair.cc:588] Connection reset by peer"),
    ],
)
def test_a_rank_that_lost_its_peer_is_not_the_cause(outcomes: dict[int, dict[str, object]], error: str) -> None:
    assert run_status(outcomes) == ("failed", error)


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4242",
        "torch.distributed.DistBackendError: [3] is setting up NCCL communicator and retrieving ncclUniqueId from [0]",
        "RuntimeError: [c10d] recvBytes failed on SocketImpl(fd=42)",
        "DistNetworkError: failed to recv, got 0 bytes",
        "DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2356, remote process exited",
        "DistBackendError: ncclRemoteError: A call failed possibly due to a network error",
        "DistBackendError: [Rank 0] watchdog caught collective operation timeout",
    ],
)
def test_errors_of_lost_peers_are_known(error: str) -> None:
    assert run_status({0: {"status": "failed", "error": error, "at": 1.0}, 1: KILLED})[1] == "rank 1: killed by SIGKILL"


def test_a_rank_that_nccl_s_watchdog_aborted_is_not_the_cause() -> None:
    words = "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9)\nterminate called"
    aborted = rank_outcome(ProcessExit(0, -signal.SIGABRT, "itself", words), {}, {}, killed_for_memory=False)
    killed = rank_outcome(ProcessExit(1, -signal.SIGKILL, "itself", ""), {}, {}, killed_for_memory=False)
    assert run_status({0: aborted, 1: killed}) == ("failed", "rank 1: killed by SIGKILL")


def test_a_rank_that_was_ended_is_not_the_cause() -> None:
    ended = {"status": "failed", "error": "ended", "collateral": True}
    assert run_status({0: ended, 1: {"status": "timeout", "error": "late"}}) == ("timeout", "rank 1: late")


def test_a_rank_that_lost_a_peer_which_ended_well_is_the_status() -> None:
    lost = {"status": "failed", "error": "RuntimeError: Connection closed by peer"}
    assert run_status({0: lost, 1: {"status": "ok"}}) == ("failed", "rank 0: RuntimeError: Connection closed by peer")


def test_a_run_is_ok_where_all_ranks_are() -> None:
    assert run_status({0: {"status": "ok"}, 1: {"status": "ok"}}) == ("ok", None)


STOPPED = {
    "status": "timeout",
    "stopped": True,
    "error": "canceled by SIGTERM",
    "windows": 1,
    "files": [{"file": "t"}],
}


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (STOPPED, "reached the time limit; what was recorded before it is kept"),
        (
            STOPPED | {"unsaved": "OSError: No space left on device", "files": []},
            "reached the time limit; the recording could not be written: OSError: No space left on device",
        ),
        (STOPPED | {"windows": 0, "files": []}, "reached the time limit; nothing was recorded before it"),
    ],
)
def test_the_time_limit_is_reported_with_what_is_kept(answer: dict[str, object], sentence: str) -> None:
    found = rank_outcome(ProcessExit(0, 1, "timeout", ""), answer, {}, killed_for_memory=False)
    assert (found["status"], found["error"]) == ("timeout", sentence)


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("replica 0 on device 0", "ValueError: a batch of one (in replica 0 on device 0)"),
        ("DataLoader worker process 1", "ValueError: a batch of one (in DataLoader worker process 1)"),
    ],
)
def test_an_error_of_a_replica_or_a_loader_is_named_without_its_traceback(where: str, sentence: str) -> None:
    frames = "\n".join(f'  File "/a/file.py", line {number}, in forward' for number in range(40))
    traceback = f"Original Traceback (most recent call last):\n{frames}\nValueError: a batch of one\n"
    text = f"Caught ValueError in {where}.\n{traceback}"
    assert status_of_error(ValueError(text)) == ("failed", sentence)


def test_what_a_rank_knew_before_it_was_killed_is_kept() -> None:
    known = {"status": "failed", "versions": {"torch_version": "2.13.0"}, "model_cost": {"parameters": 3}}
    found = rank_outcome(ProcessExit(0, -signal.SIGKILL, "timeout", ""), {}, known, killed_for_memory=False)
    assert (found["status"], found["versions"], found["model_cost"]) == (
        "timeout",
        {"torch_version": "2.13.0"},
        {"parameters": 3},
    )


def test_a_rank_that_is_interrupted_has_failed_unless_it_was_done() -> None:
    ended = ProcessExit(0, 1, "interrupted", "")
    told = [rank_outcome(ended, {"status": each}, {}, killed_for_memory=False)["status"] for each in ("timeout", "ok")]
    assert told == ["failed", "ok"]


@pytest.mark.parametrize(
    ("outcome", "seen"), [({"kernels": 0, "copies": 6}, True), ({"kernels": 1}, True), ({"kernels": 0}, False)]
)
def test_copies_alone_are_work_of_a_gpu(outcome: dict[str, int], seen: bool) -> None:
    assert has_gpu_work({0: {"kernels": 0}, 1: outcome}) is seen


def test_an_error_does_not_tell_who_ran_it() -> None:
    said = f"{Path.home()}/.cache/torch/resnet18.pth: no such checkpoint file"
    assert (hide_home(said), hide_home(None)) == ("~/.cache/torch/resnet18.pth: no such checkpoint file", None)
