"""Reports in ncu's own form: through NVIDIA's module where it is installed, with one sentence where it is not."""

import functools
import gzip
import importlib.util
import struct
import sys

import pyarrow as pa
import pytest

from tests.readers.small import ingest_bytes

needs_module = pytest.mark.skipif(
    importlib.util.find_spec("ncu_report") is None, reason="ncu-report is not installed: pip install tracelab[ncu]"
)


def number(value: int) -> bytes:
    """A protobuf varint."""
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def field(at: int, value: int | float | str | bytes) -> bytes:
    """A protobuf field."""
    if isinstance(value, int):
        return number(at << 3) + number(value)
    if isinstance(value, float):
        return number(at << 3 | 1) + struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return number(at << 3 | 2) + number(len(data)) + data


def sized(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


METRICS = {
    "dram__bytes.sum": 5318969728.0,
    "gpu__time_duration.sum": 123456.5,
    "inst_executed": 60,
    "launch__block_dim_x": 128,
    "launch__block_dim_y": 2,
    "launch__block_dim_z": 1,
    "launch__context_id": 1,
    "launch__device_id": 0,
    "launch__func_cache_config": "PreferNone",
    "launch__grid_dim_x": 64,
    "launch__grid_dim_y": 1,
    "launch__grid_dim_z": 1,
    "launch__stream_id": 7,
}
INSTANCES = {"inst_executed": {0x10: 20, 0x20: 40}}
KINDS = {float: 3, int: 5, str: 1}  # fields of a metric's value


@functools.cache  # thousands of launches have the same, and reports are written before the first test
def metric(at: int, name: str, value: float | str) -> bytes:
    def cell(content: float | str) -> bytes:
        return field(KINDS[type(content)], content)

    listed = [
        field(3, field(1, field(5, address)) + field(2, cell(part)))
        for address, part in INSTANCES.get(name, {}).items()
    ]
    return field(13, field(1, at) + field(2, cell(value)) + b"".join(listed))


def report(launches: int = 1) -> bytes:
    """A report as NVIDIA's documentation of the file describes it: a header, one block, its launches."""
    nothing = field(1, 0) + field(2, 0) + field(3, 0)
    message = field(1, "Look at @section:Occupancy:Occupancy@.") + field(2, 2)
    rule = (
        field(1, "SOLBottleneck")
        + field(2, "Bottleneck")
        + field(3, field(1, field(1, message)))
        + field(4, "SpeedOfLight")
    )
    results = []
    for at in range(launches):
        head = [field(place, at) for place in (1, 2, 3, 4)] + [
            field(5, "_Z4axpy"),
            field(6, "axpy"),
            field(7, "axpy(float *)"),
        ]
        shape = [field(8, 3), field(9, nothing), field(10, nothing), field(11, nothing), field(15, b"")]
        values = METRICS | {"gpu__time_duration.sum": 123456.5 + at}
        metrics = [metric(place, name, value) for place, (name, value) in enumerate(values.items())]
        results.append(sized(b"".join([*head, *shape, *metrics, field(19, rule)])))
    payload = b"".join(results)
    names = b"".join(field(1, name) for name in METRICS)
    block = field(2, launches) + field(4, names) + field(5, len(payload)) + field(6, field(1, 4242))
    return b"NVR\0" + sized(field(1, 10)) + sized(block) + payload


def zstd(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)


@needs_module
@pytest.mark.parametrize(
    ("content", "name"),
    [
        (report(), "axpy.ncu-rep"),
        (zstd(report()), "axpy.ncu-repz"),
        (gzip.compress(report()), "axpy.ncu-rep.gz"),
        (report(), "axpy"),
        (zstd(report()), "renamed.bin"),
    ],
)
def test_a_report_is_read_whatever_it_is_called_and_packed_with(tmp_path, content, name):
    lab = ingest_bytes(tmp_path, content, name)
    rows = lab.rows("kernel_metrics")
    assert [(row["metric"], row["instance"], row["value"]) for row in rows][:5] == [
        ("dram__bytes.sum", None, 5318969728.0),
        ("gpu__time_duration.sum", None, 123456.5),
        ("inst_executed", None, 60.0),
        ("inst_executed", "0x10", 20.0),
        ("inst_executed", "0x20", 40.0),
    ]
    assert len(rows) == 15
    launch = {row["kernel"] for row in rows}, {row["launch"] for row in rows}, {row["stream"] for row in rows}
    assert launch == ({"axpy(float *)"}, {0}, {7})
    assert [rows[0][f"{what}_{axis}"] for what in ("grid", "block") for axis in "xyz"] == [64, 1, 1, 128, 2, 1]
    assert [row["text"] for row in rows if row["text"]] == ["PreferNone"]
    assert lab.counts == (1, 1, 0)


@needs_module
def test_messages_of_rules_in_a_report_are_diagnostics(tmp_path):
    lab = ingest_bytes(tmp_path, report(2), "axpy.ncu-rep")
    assert [row["message"] for row in lab.rows("diagnostics") if row["code"] == "ncu_rule"] == [
        f"launch {at}, axpy(float *): WRN SOLBottleneck (SpeedOfLight): Look at Occupancy." for at in (0, 1)
    ]


@needs_module
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (report()[:150], "ends 141 bytes early, at byte 150"),
        (report() + b"\1", "ends 3 bytes early, at byte 603"),
        (b"NVR\0" + b"junk" * 50, "ends 1,802,400,934 bytes early, at byte 204"),
        (zstd(b"NVR\0"), "ends 4 bytes early, at byte 4"),
        (zstd(report(3000))[:-50], "ends 187 bytes early, at byte 917,504"),
    ],
)
def test_a_report_with_damaged_lengths_is_refused_with_a_message(tmp_path, content, problem):
    result = ingest_bytes(tmp_path, content, "axpy.ncu-rep").file
    assert (result.status, result.message.split("ncu, which ")[-1]) == ("failed", f"{problem}; copy it again")


@needs_module
def test_launches_that_a_block_does_not_declare_are_counted(tmp_path):
    content = report(3).replace(field(2, 3) + field(4, b"")[:1], field(2, 2) + field(4, b"")[:1], 1)
    lab = ingest_bytes(tmp_path, content, "axpy.ncu-rep")
    assert (lab.counts, lab.file.status, lab.diagnostics() & {"launch_lost"}) == (
        (3, 2, 1),
        "salvaged",
        {"launch_lost"},
    )


@needs_module
def test_launches_without_metrics_are_not_kept(tmp_path):
    """The module returns no metric of any launch of a report where one is damaged."""
    content = report(3)
    damaged = metric(1, "gpu__time_duration.sum", 123457.5)
    result = ingest_bytes(tmp_path, content.replace(damaged, bytes(len(damaged))), "axpy.ncu-rep").file
    assert (result.status, "no readable launch in this report" in result.message) == ("not_profiler_data", True)


@needs_module
def test_damaged_texts_and_metrics_of_a_report_are_counted(tmp_path):
    content = report().replace(b"axpy(float *)", b"axpy(\xff\xfeoat *)").replace(b"inst_executed", b"inst_ex\xfccuted")
    lab = ingest_bytes(tmp_path, content, "axpy.ncu-rep")
    assert {row["kernel"] for row in lab.rows("kernel_metrics")} == {"axpy(\ufffd\ufffdoat *)"}
    assert "inst_executed" not in {row["metric"] for row in lab.rows("kernel_metrics")}
    assert lab.diagnostics() >= {"metric_lost", "invalid_text"}


def test_without_the_module_the_error_shows_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ncu_report", None)  # as Python marks what cannot be imported
    result = ingest_bytes(tmp_path, report(), "axpy.ncu-rep").file
    assert result.status == "failed"
    assert "pip install 'tracelab[ncu]'" in result.message
    assert "ncu --import REPORT.ncu-rep --csv --page raw" in result.message
