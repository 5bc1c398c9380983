"""Activity of accelerators other than GPUs is in the tables; what has no table is counted in a sentence."""

from collections import Counter
from pathlib import Path

import pytest

from tests import corpus
from tests.readers.small import TIMES, event, given, ingest_bytes, ingest_paths, op, trace
from tracelab.client import Lab


def ccp(name: str, **args: object) -> dict:
    """An event of an MTIA device, on a track that is no stream."""
    return event("mtia_ccp_events", name, pid=17, tid=3774, args={"correlation": 5, "stream": 108} | args)


MTIA = TIMES | {"pid": 100, "device": 17, "stream": 108, "correlation": 5}


def test_mtia_jobs_are_kernels(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(op(), ccp("merge", column="0")))
    assert given(lab.one("kernels"), MTIA | {"name": "merge"}) == MTIA | {"name": "merge"}
    assert lab.one("kernels")["args"] == '{"column":"0"}'


@pytest.mark.parametrize(
    ("direction", "expected"), [("HOST_TO_DEVICE", "HtoD"), ("DEVICE_TO_HOST", "DtoH"), ("SIDEWAYS", "unknown")]
)
def test_mtia_dma_requests_are_copies(tmp_path: Path, direction: str, expected: str) -> None:
    lab = ingest_bytes(tmp_path, trace(op(), ccp("dma_request", direction=direction, size=1024)))
    row = MTIA | {"direction": expected, "size_bytes": 1024}
    assert given(lab.one("memcpys"), row) == row


def test_mtia_events_are_synchronization(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(op(), ccp("event_wait", wait_on_stream=104)))
    row = MTIA | {"kind": "event_wait", "waits_for_stream": 104}
    assert given(lab.one("syncs"), row) == row


def test_the_device_half_of_an_mtia_call_is_no_call(tmp_path: Path) -> None:
    args = {"correlation": 5, "device": 17, "stream_id": 108}
    call = event("mtia_runtime", "synchronizeStream", args=args)
    half = event("mtia_runtime", "synchronize", pid=17, tid=3568, args=args)
    lab = ingest_bytes(tmp_path, trace(op(), call, half))
    assert (lab.one("api_calls")["name"], lab.one("api_calls")["pid"]) == ("synchronizeStream", 100)
    assert given(lab.one("syncs"), MTIA | {"kind": "synchronize"}) == MTIA | {"kind": "synchronize"}


def test_xpu_synchronization_has_neither_device_nor_stream(tmp_path: Path) -> None:
    args = {"correlation": 5, "Type": "HOST_FENCE", "Queue_handle": "0x00000001"}
    lab = ingest_bytes(tmp_path, trace(op(), event("xpu_sync", "zeFenceHostSynchronize", pid=-1, args=args)))
    row = TIMES | {"pid": 100, "device": None, "stream": None, "correlation": 5, "kind": "HOST_FENCE"}
    assert given(lab.one("syncs"), row) == row
    assert lab.one("syncs")["args"] == '{"Queue_handle":"0x00000001"}'


@pytest.mark.traces
@pytest.mark.skipif(not corpus.ROOT.is_dir(), reason="the shared corpus of traces does not stand beside this checkout")
def test_real_mtia_trace(tmp_path: Path) -> None:
    lab = ingest_paths(tmp_path, [corpus.ROOT / "kineto" / "hta" / "mtia_inference_rank_0.json.gz"])
    assert Counter(row["name"] for row in lab.rows("kernels")) == {"remote": 37, "merge": 36, "pe_exe": 24}
    assert Counter(row["direction"] for row in lab.rows("memcpys")) == {"DtoH": 450, "HtoD": 427}
    assert Counter(row["kind"] for row in lab.rows("syncs")) == {
        "event_record": 291,
        "synchronize": 113,
        "event_wait": 48,
    }
    assert {row["device"] for table in ("kernels", "memcpys", "syncs") for row in lab.rows(table)} == {17}
    assert sum(row["dur_ns"] for row in lab.rows("kernels")) == 414_085_123
    (row,) = Lab(lab.store).query("gpu_breakdown").arrow().to_pylist()
    assert row["device"] == 17
    assert "no_gpu_activity" not in Lab(lab.store).doctor().arrow().column("code").to_pylist()
