"""Map samples of GPU metrics to rows of `counters`, with name and unit."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nsys.coerce import to_int32
from tracelab.readers.nsys.column_builders import Batch, time
from tracelab.readers.nsys.combinations import map_combinations
from tracelab.readers.nsys.export import Array, Columns, Export, read_records
from tracelab.readers.nsys.string_table import map_distinct

TABLE = "GPU_METRICS"
KINDS: Columns = {"typeId": "int", "metricId": "int", "timestamp": "int", "value": "real"}
"""Columns that are read."""

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


def build_counters(batch: Batch, metric_names: MetricNames) -> pa.Table:
    """Build rows of `counters`; the device is the number of the card in the export."""
    keys = (batch.column("typeId"), batch.column("metricId"))
    names = map_combinations(keys, lambda *key: metric_names.get(key, f"metric {key[1]}"), pa.string())
    gpu = pc.bit_wise_and(batch.column("typeId"), _GPU_BITS)
    return pa.table(
        {
            "device": to_int32(gpu, "typeId", batch.diagnostics),
            "time_ns": time("timestamp")(batch),
            "name": names,
            "value": batch.column("value", "real"),
            "unit": map_distinct(names, _units),
        }
    )


def _units(names: Array) -> Array:
    return pa.array(map(_parse_unit, names.to_pylist()), pa.string())


def _parse_unit(name: str) -> str | None:
    """Return the unit at the end of a name: % of `SMs Active [Throughput %]`.

    A pattern would search from each bracket to the end of the name.
    """
    body, closing, rest = name.rpartition("]")
    inner = body.rpartition("]")[2]
    unit = inner.split()[-1] if inner.strip() else ""
    if not closing or rest.strip() or not inner.endswith(unit):
        return None
    is_last_word = inner[: -len(unit)][-1:].isspace() and "[" in body[: len(body) - len(unit)] if unit else False
    return unit if is_last_word else unit.partition("[")[2] or None
