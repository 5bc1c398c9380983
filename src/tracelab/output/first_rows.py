"""Take the rows of an answer that a terminal shows."""

import pyarrow as pa


def take_first(rows: pa.Table | pa.RecordBatchReader, limit: int) -> tuple[pa.Table, bool]:
    """Return the first rows, and whether there are more; read no more of a reader than that takes."""
    if isinstance(rows, pa.Table):
        return rows.slice(0, limit), rows.num_rows > limit
    batches: list[pa.RecordBatch] = []
    while sum(batch.num_rows for batch in batches) <= limit and (batch := next(rows, None)) is not None:
        batches.append(batch)
    table = pa.Table.from_batches(batches, rows.schema)
    return table.slice(0, limit), table.num_rows > limit
