"""Map the device attributes in a report to rows of `devices`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

import pyarrow as pa

from tracelab import schema

_PREFIX = "device__attribute_"
_HZ_PER_KHZ = 1000
_WHOLE = re.compile(r"(\d{1,19})(?:\.0*)?")

_COLUMNS: Mapping[str, str] = {
    "display_name": "name",
    "multiprocessor_count": "sm_count",
    "total_memory": "memory_bytes",
    "l2_cache_size": "l2_bytes",
    "async_engine_count": "async_engines",
    "max_threads_per_multiprocessor": "max_threads_per_sm",
}
_OTHERS = ("clock_rate", "compute_capability_major", "compute_capability_minor")
_OTHERS_OF_MEMORY = ("memory_clock_rate", "global_memory_bus_width")
_RECORDED = {*_COLUMNS, *_OTHERS, *_OTHERS_OF_MEMORY}

Key = tuple[int | None, int | None]
"""Process and device."""


@dataclass
class DeviceAttributes:
    """Attributes of each GPU; the first value of each attribute counts."""

    attributes_of: dict[Key, dict[str, str]] = field(default_factory=dict)

    def note(self, key: Key, attribute: str, value: str) -> None:
        """Record one attribute, with or without ncu's prefix."""
        name = attribute.removeprefix(_PREFIX)
        if value and (name in _RECORDED or name == "compute_capability"):
            self.attributes_of.setdefault(key, {}).setdefault(name, value)

    def table(self, rank_of: Callable[[int | None], int]) -> pa.Table | None:
        """Build the rows of all devices with attributes."""
        known = schema.BY_NAME["devices"].columns
        rows = [
            {"rank": rank_of(pid), "device": device, **_build_row(attributes)}
            for (pid, device), attributes in self.attributes_of.items()
        ]
        if not rows:
            return None
        columns = [column for column in known if any(column.name in row for row in rows)]
        return pa.table({c.name: pa.array([row.get(c.name) for row in rows], c.arrow.type) for c in columns})


def _build_row(attributes: Mapping[str, str]) -> dict[str, object]:
    row: dict[str, object] = {}
    for attribute, column in _COLUMNS.items():
        value = attributes.get(attribute)
        row[column] = value if column == "name" else _parse_int(value)
    clock_khz, memory_khz = _parse_int(attributes.get("clock_rate")), _parse_int(attributes.get("memory_clock_rate"))
    bus_bits = _parse_int(attributes.get("global_memory_bus_width"))
    row["spec_clock_hz"] = float(clock_khz * _HZ_PER_KHZ) if clock_khz else None
    if memory_khz and bus_bits:  # two transfers a clock, as the CUDA attribute counts it
        row["spec_bandwidth_gb_per_s"] = float(Decimal(2 * memory_khz * bus_bits) / 8 / 10**6)
    major, minor = (attributes.get(f"compute_capability_{part}") for part in ("major", "minor"))
    row["compute_capability"] = attributes.get("compute_capability") or (
        f"{major}.{minor}" if major and minor else None
    )
    return {name: value for name, value in row.items() if value is not None and _fits_column(name, value)}


def _parse_int(text: str | None) -> int | None:
    """Parse the value of an attribute; ncu writes these without separators, some exports with a fraction of zeros."""
    attributes_of = _WHOLE.fullmatch(text.replace(",", "")) if text is not None else None
    return int(attributes_of[1]) if attributes_of and int(attributes_of[1]) < 1 << 63 else None


def _fits_column(column: str, value: object) -> bool:
    kind = next(c.type for c in schema.BY_NAME["devices"].columns if c.name == column)
    return kind != "int32" or (isinstance(value, int) and abs(value) < 1 << 31)
