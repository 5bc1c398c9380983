"""Map samples of GPU metrics to rows of `counters`, with name and unit."""

import re
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nsys.coerce import to_int32
from tracelab.readers.nsys.column_builders import Batch, time
from tracelab.readers.nsys.export import Columns, Export, read_records

TABLE = "GPU_METRICS"
_UNIT = re.compile(r"\[(?:.*\s)?([^\s\]]+)\]\s*$")  # SMs Active [Throughput %]
_GPU_BITS = 0xFF
"""Bits of a type id that number the GPU."""

MetricNames = Mapping[tuple[int, int], str]
"""Names by type and metric id."""


def read_metric_names(export: Export, diagnostics: DiagnosticCounts) -> MetricNames:
    """Read the names of the metrics."""
    columns: Columns = {"typeId": "int", "metricId": "int", "metricName": "text"}
    rows = read_records(export, "TARGET_INFO_GPU_METRICS", columns, diagnostics)
    return {
        (row["typeId"], row["metricId"]): row["metricName"]
        for row in rows
        if isinstance(row["typeId"], int) and isinstance(row["metricId"], int) and isinstance(row["metricName"], str)
    }


def build_counters(batch: Batch, names: MetricNames) -> pa.Table:
    """Build rows of `counters`; the device is the number of the card in the export."""
    keys = list(zip(*(batch.column(name).to_pylist() for name in ("typeId", "metricId")), strict=True))
    distinct = {key: names.get(key, f"metric {key[1]}") for key in set(keys)}
    units = {key: match[1] if (match := _UNIT.search(name)) else None for key, name in distinct.items()}
    gpu = pc.bit_wise_and(batch.column("typeId"), _GPU_BITS)
    return pa.table(
        {
            "device": to_int32(gpu, "typeId", batch.diagnostics),
            "time_ns": time("timestamp")(batch),
            "name": pa.array([distinct[key] for key in keys], pa.string()),
            "value": batch.column("value").cast(pa.float64()),
            "unit": pa.array([units[key] for key in keys], pa.string()),
        }
    )
