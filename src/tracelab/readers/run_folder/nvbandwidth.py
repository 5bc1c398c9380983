"""nvbandwidth's JSON (`nvbandwidth -j`) as rows of `ceilings`."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.run_folder.coerce import Row, shown

TITLE = "nvbandwidth"
_NAMES = {"host_to_device_memcpy_ce": "h2d_pinned", "device_to_host_memcpy_ce": "d2h_pinned"}
"""Tests that measure what `collect ceilings` does: copies of pinned memory by the copy engines."""
_DEVICE = re.compile(r"(?:(\d+): )?(.*?)(?: \([0-9a-fA-F:.]+\).*)?$")
_UNITS = (("(GB/s)", "gb_per_s"), ("(ns)", "ns"))
_EMPTY = ("N/A", "")
_MIB = 1 << 20
_UNSAID_MIB, _UNSAID_SAMPLES = 512, 3
"""nvbandwidth's defaults; its JSON names them only since some version."""


def rows(content: Mapping[str, Any], diagnostics: DiagnosticCounts) -> Iterator[Row]:
    """A row for each figure of each test."""
    told = content.get(TITLE)
    told = told if isinstance(told, Mapping) else {}
    devices = _devices(told.get("GPU Device list"))
    tests = told.get("testcases")
    for test in tests if isinstance(tests, list) else []:
        if not isinstance(test, Mapping):
            diagnostics.note("test_failed", shown(test))
        elif not isinstance(test.get("bandwidth_matrix"), list):
            if test.get("status") != "Waived":  # this machine has not what it is about
                diagnostics.note("test_failed", f"{test.get('name')}: {test.get('error') or test.get('status')}")
        else:
            yield from _of_test(test, {**told, **test}, devices, diagnostics)
    if told.get("error"):
        diagnostics.note("test_failed", told["error"])


def version(content: Mapping[str, Any]) -> str | None:
    """The version that nvbandwidth says it is."""
    told = content.get(TITLE)
    found = (told.get("version") or told.get("git_version")) if isinstance(told, Mapping) else None
    return found if isinstance(found, str) else None


def _of_test(
    test: Mapping[str, Any], options: Mapping[str, Any], devices: dict[int, str], diagnostics: DiagnosticCounts
) -> Iterator[Row]:
    name, about = str(test.get("name")), str(test.get("bandwidth_description") or "")
    unit = next((unit for mark, unit in _UNITS if mark in about), None)
    mean, samples = options.get("useMean") is True, _count(options, "testSamples", _UNSAID_SAMPLES)
    size_bytes = _count(options, "bufferSize", _UNSAID_MIB) * _MIB if unit == "gb_per_s" else None
    for i, line in enumerate(test["bandwidth_matrix"]):
        for j, text in enumerate(line if isinstance(line, list) else []):
            if text in _EMPTY:
                continue
            value = _number(text)
            if value is None or unit is None:
                diagnostics.note("value_unfit", f"{name} {shown(text)}")
                continue
            gpus = sorted({index for index, mark in ((i, "GPU(row)"), (j, "GPU(column)")) if mark in about})
            yield {
                "device_name": devices.get(gpus[0]) if gpus else None,
                "metric": _NAMES.get(name, name),
                "size_bytes": size_bytes,
                "gpus": len(gpus) or None,
                "best": value,
                "median": None if mean else value,
                "repeats": samples,
                "unit": unit,
                "counting": f"{about}, row {i}, column {j}; {'mean' if mean else 'median'} of {samples}",
            }


def _devices(listed: object) -> dict[int, str]:
    """Names by number: '0: NVIDIA H100 PCIe (00000000:01:00)', in some versions with the host behind."""
    found: dict[int, str] = {}
    for place, text in enumerate(listed if isinstance(listed, list) else []):
        read = _DEVICE.match(text) if isinstance(text, str) else None
        if read:
            found[int(read[1]) if read[1] else place] = read[2]
    return found


def _number(text: object) -> float | None:
    try:
        value = float(text)  # type: ignore[arg-type]  # a TypeError is caught
    except (TypeError, ValueError, OverflowError):
        return None
    return value if 0 < value < float("inf") else None


def _count(options: Mapping[str, Any], name: str, unsaid: int) -> int:
    value = options.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 24 else unsaid
