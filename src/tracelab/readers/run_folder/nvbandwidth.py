"""Map nvbandwidth's JSON (`nvbandwidth -j`) to rows of `ceilings`."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tracelab.readers.diagnostics import DiagnosticCounts, describe_value
from tracelab.readers.run_folder.coerce import Row
from tracelab.readers.tool_messages import quote_message

TITLE = "nvbandwidth"
_METRIC_OF_TEST = {"host_to_device_memcpy_ce": "h2d_pinned", "device_to_host_memcpy_ce": "d2h_pinned"}
"""Tests that measure the same as `collect ceilings`: copies of pinned memory by the copy engines."""
_DEVICE = re.compile(r"(?:(\d+): )?(.*?)(?: \([0-9a-fA-F:.]+\).*)?$")
_UNITS = (("(GB/s)", "gb_per_s"), ("(ns)", "ns"))
_NO_VALUE = ("N/A", "")
_MIB = 1 << 20
_DEFAULT_MIB, _DEFAULT_SAMPLES = 512, 3
"""nvbandwidth's defaults; its JSON has the values only since some version."""


def build_rows(content: Mapping[str, Any], diagnostics: DiagnosticCounts) -> Iterator[Row]:
    """Yield a row for each figure of each test."""
    report = content.get(TITLE)
    report = report if isinstance(report, Mapping) else {}
    devices = _device_names(report.get("GPU Device list"))
    tests = report.get("testcases")
    for test in tests if isinstance(tests, list) else []:
        if not isinstance(test, Mapping):
            diagnostics.note("test_failed", describe_value(test))
        elif not isinstance(test.get("bandwidth_matrix"), list):
            if test.get("status") != "Waived":  # not supported by this machine
                problem = str(test.get("error") or test.get("status"))
                diagnostics.note("test_failed", f"{test.get('name')}: {quote_message(TITLE, problem)}")
        else:
            yield from _test_rows(test, {**report, **test}, devices, diagnostics)
    if report.get("error"):
        diagnostics.note("test_failed", quote_message(TITLE, str(report["error"])))


def tool_version(content: Mapping[str, Any]) -> str | None:
    """Return the version of nvbandwidth."""
    report = content.get(TITLE)
    value = (report.get("version") or report.get("git_version")) if isinstance(report, Mapping) else None
    return value if isinstance(value, str) else None


def _test_rows(
    test: Mapping[str, Any], options: Mapping[str, Any], devices: dict[int, str], diagnostics: DiagnosticCounts
) -> Iterator[Row]:
    name, description = str(test.get("name")), str(test.get("bandwidth_description") or "")
    unit = next((unit for mark, unit in _UNITS if mark in description), None)
    mean, samples = options.get("useMean") is True, _count_option(options, "testSamples", _DEFAULT_SAMPLES)
    size_bytes = _count_option(options, "bufferSize", _DEFAULT_MIB) * _MIB if unit == "gb_per_s" else None
    for i, line in enumerate(test["bandwidth_matrix"]):
        for j, text in enumerate(line if isinstance(line, list) else []):
            if text in _NO_VALUE:
                continue
            value = _parse_number(text)
            if value is None or unit is None:
                diagnostics.note("value_unfit", f"{name} {describe_value(text)}")
                continue
            gpus = sorted({index for index, mark in ((i, "GPU(row)"), (j, "GPU(column)")) if mark in description})
            yield {
                "device_name": devices.get(gpus[0]) if gpus else None,
                "metric": _METRIC_OF_TEST.get(name, name),
                "size_bytes": size_bytes,
                "gpus": len(gpus) or None,
                "best": value,
                "median": None if mean else value,
                "repeats": samples,
                "unit": unit,
                "counting": f"{description}, row {i}, column {j}; {'mean' if mean else 'median'} of {samples}",
            }


def _device_names(listed: object) -> dict[int, str]:
    """Return device names by ordinal: '0: NVIDIA H100 PCIe (00000000:01:00)', in some versions followed by the host."""
    names: dict[int, str] = {}
    for place, text in enumerate(listed if isinstance(listed, list) else []):
        match = _DEVICE.match(text) if isinstance(text, str) else None
        if match:
            names[int(match[1]) if match[1] else place] = match[2]
    return names


def _parse_number(text: object) -> float | None:
    try:
        value = float(text)  # type: ignore[arg-type]  # a TypeError is caught
    except (TypeError, ValueError, OverflowError):
        return None
    return value if 0 < value < float("inf") else None


def _count_option(options: Mapping[str, Any], name: str, default: int) -> int:
    value = options.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 24 else default
