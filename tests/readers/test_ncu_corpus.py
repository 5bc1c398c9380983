"""Every ncu export of the corpus against Python's csv and decimal: each metric matches the file's text."""

import csv
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from tests.corpus import ROOT, needs_traces
from tests.readers.small import Lab, ingest_paths

pytestmark = needs_traces

FILES = [
    # file, launches, rows of kernel_metrics, messages of rules, events
    ("gardenia/gemm.csv", 3, 45, 0, 45),
    ("codegandee/kernel_0004/ncu.details.csv", 1, 44, 4, 48),
    ("codegandee/kernel_0004/ncu.section_SpeedOfLight_RooflineChart.csv", 1, 22, 1, 23),
    ("clima/baseline-details.csv", 6, 480, 114, 594),
    ("cachecheck/ResNet50_single.csv", 583, 583, 0, 583),
    ("tanvisharma/3136_64_64_rtx2080ti_sgemm.ncu2022_3.raw.csv", 1, 699, 0, 1),
    ("tanvisharma/3136_64_64_rtx2080ti_sgemm.ncu2022_3.details.csv", 1, 56, 8, 64),
    ("icon/gpu.ncu2024_1.raw.csv", 7, 3500, 0, 7),
    ("icon/gpu.ncu2024_1.details.csv", 7, 280, 33, 313),
]
PAIRS = [("icon/gpu.ncu2024_1", 280), ("tanvisharma/3136_64_64_rtx2080ti_sgemm.ncu2022_3", 56)]

BASE_UNITS = """
    % cycle inst warp sector block thread SM request byte byte/block byte/cycle inst/cycle sector/cycle pass
    register/thread branches sectors cluster
"""
SCALED_UNITS = """
    us 3 ns, usecond 3 ns, msecond 6 ns, ms 6 ns, Kbyte 3 byte, Mbyte 6 byte, Gbyte 9 byte, Kbyte/block 3 byte/block,
    Kbyte/cycle 3 byte/cycle, Gbyte/s 9 byte/s, Gbyte/second 9 byte/s, byte/second 0 byte/s, sector/second 0 sector/s,
    sector/nsecond 9 sector/s, Ghz 9 Hz, cycle/nsecond 9 Hz, cycle/second 0 Hz
"""
UNITS: dict[str, tuple[int, str | None]] = {"": (0, None)}  # by a unit of these files: ×10^n, and the base unit's name
UNITS |= {unit: (0, unit) for unit in BASE_UNITS.split()}
UNITS |= {unit: (int(power), base) for unit, power, base in (line.split() for line in SCALED_UNITS.split(","))}
NAMES = {"ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream"}
NAMES |= {"Block Size", "Grid Size", "Device", "CC"}


def table(path: Path) -> list[dict[str, str]]:
    """The rows of a file's table, by column."""
    text = path.read_text()
    rows = list(csv.reader(text[text.index('"ID"') :].splitlines(keepends=True)))
    return [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]


def written(path: Path) -> list[tuple[int, str, str, str, str | None]]:
    """Launch, name, value and unit as written, and section, of every metric of a file, in its order."""
    rows = table(path)
    if "Metric Value" in rows[0]:
        return [
            (int(row["ID"]), row["Metric Name"], row["Metric Value"], row["Metric Unit"], row["Section Name"])
            for row in rows
            if row["Metric Name"]
        ]
    units, *launches = rows
    return [
        (int(row["ID"]), name, row[name].strip(), units[name], None)
        for row in launches
        for name in row
        if name not in NAMES and row[name].strip()
    ]


def in_base(text: str, unit: str) -> tuple[float | None, str | None, str | None]:
    """Value, text and unit as they should be stored."""
    exponent, base = UNITS[unit]
    try:
        return float(Decimal(text.replace(",", "")).scaleb(exponent)), None, base
    except ArithmeticError:
        return None, text, base


@pytest.fixture(scope="module")
def labs(tmp_path_factory) -> dict[str, Lab]:
    """Every file in a store of its own."""
    return {name: ingest_paths(tmp_path_factory.mktemp("ncu"), [ROOT / "ncu" / name]) for name, *_ in FILES}


@pytest.mark.parametrize("name", [name for name, *_ in FILES])
def test_every_metric_is_the_text_in_base_units(labs, name):
    expected = [
        (launch, section, *in_base(text, unit)) for launch, _, text, unit, section in written(ROOT / "ncu" / name)
    ]
    stored = [
        (row["launch"], row["section"], row["value"], row["text"], row["unit"])
        for row in labs[name].rows("kernel_metrics")
    ]
    assert stored == expected


@pytest.mark.parametrize("name", [name for name, *_ in FILES])
def test_every_launch_has_the_identity_of_its_row(labs, name):
    def shape(row: dict[str, str], column: str) -> tuple[int, ...] | None:
        return tuple(int(size) for size in row[column].strip("()").split(",")) if row.get(column) else None

    def stored_shape(row: dict[str, object], what: str) -> tuple[object, ...] | None:
        sizes = tuple(row[f"{what}_{axis}"] for axis in "xyz")
        return None if sizes == (None, None, None) else sizes

    expected = {
        (int(row["ID"]), int(row["Process ID"]), row["Kernel Name"], int(row["Context"]), int(row["Stream"]))
        + ((shape(row, "Grid Size"), shape(row, "Block Size"), int(row["Device"])) if "Device" in row else ())
        for row in table(ROOT / "ncu" / name)
        if row["ID"] and row.get("Metric Name", "-")
    }
    has_device = "Device" in table(ROOT / "ncu" / name)[0]
    stored = {
        (row["launch"], row["pid"], row["kernel"], row["context"], row["stream"])
        + ((stored_shape(row, "grid"), stored_shape(row, "block"), row["device"]) if has_device else ())
        for row in labs[name].rows("kernel_metrics")
    }
    assert stored == expected


@pytest.mark.parametrize(("name", "launches", "metrics", "messages", "events"), FILES)
def test_every_row_is_counted(labs, name, launches, metrics, messages, events):
    lab = labs[name]
    rows = lab.rows("kernel_metrics")
    advice = [row for row in lab.rows("diagnostics") if row["code"] == "ncu_rule"]
    assert (len({row["launch"] for row in rows}), len(rows), len(advice)) == (launches, metrics, messages)
    assert lab.counts == (events, events, 0)
    assert lab.source["complete"] is True


@pytest.mark.parametrize("name", [name for name, *_ in FILES])
def test_names_of_hosts_and_processes_are_not_stored(labs, name):
    row = table(ROOT / "ncu" / name)[-1]
    texts = labs[name].texts().replace(row["Kernel Name"], "")
    assert row["Host Name"] == "127.0.0.1"
    assert "127.0.0.1" not in texts


@pytest.mark.parametrize(("stem", "compared"), PAIRS)
def test_the_details_page_has_the_metrics_of_the_raw_page_under_their_names(labs, stem, compared):
    raw = {(row["launch"], row["metric"]): row for row in labs[f"{stem}.raw.csv"].rows("kernel_metrics")}
    texts = written(ROOT / "ncu" / f"{stem}.details.csv")
    different, same = [], 0
    details = labs[f"{stem}.details.csv"].rows("kernel_metrics")
    for row, (_, label, text, unit, _) in zip(details, texts, strict=True):
        twin = raw.get((row["launch"], row["metric"]))
        if twin is None:
            assert row["metric"] == label, "a label was given a name that the same report does not have"
            continue
        same += 1
        if (row["text"], row["unit"]) != (twin["text"], twin["unit"]):
            different.append((label, row, twin))
        elif row["value"] is not None and not rounds_to(twin["value"], text, unit):
            different.append((label, text, unit, twin["value"]))
    assert different == []
    assert same == compared


def rounds_to(value: float, text: str, unit: str) -> bool:
    """Whether a value, written in a unit with as many digits as a text has, is about that text."""
    exponent, _ = UNITS[unit]
    expected = Decimal(text.replace(",", ""))
    step = Fraction(1, 10 ** max(0, -int(expected.as_tuple().exponent)))
    exact = Fraction(value) / Fraction(10) ** exponent
    return abs(exact - Fraction(expected)) <= step * Fraction(51, 100)


def test_the_attributes_of_a_raw_page_describe_the_device(labs):
    device = labs["icon/gpu.ncu2024_1.raw.csv"].one("devices")
    assert {name: value for name, value in device.items() if value is not None and name not in ("run", "source")} == {
        "rank": 0,
        "device": 0,
        "name": "NVIDIA GeForce RTX 4070 SUPER",
        "compute_capability": "8.9",
        "sm_count": 56,
        "memory_bytes": 12453019648,
        "l2_bytes": 50331648,
        "async_engines": 2,
        "max_threads_per_sm": 1536,
        "spec_bandwidth_gb_per_s": 504.048,
        "spec_clock_hz": 2505000000.0,
    }


def test_a_file_of_errors_is_refused_with_its_first_one(tmp_path):
    result = ingest_paths(tmp_path, [ROOT / "ncu" / "codegandee/raw.csv"]).file
    assert result.status == "not_profiler_data"
    assert "Option '…' did not match any section; fix it" in result.message
