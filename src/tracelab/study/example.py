"""Ingest the example data of rows, which ships with tracelab, into a temporary store."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tracelab.errors import NoDataError
from tracelab.ingest import pipeline
from tracelab.resources import DATA
from tracelab.study.spec import Row
from tracelab.temp_folders import process_folder


@contextmanager
def example_store(rows: Sequence[Row]) -> Iterator[Path | None]:
    """Create a temporary store of the rows' examples; yield None where all of them need published figures alone."""
    paths = example_paths(rows)
    if not paths:
        if missing := [row.id for row in rows if not row.alone]:
            raise NoDataError(f"no example data of {', '.join(missing)} ships with tracelab")
        yield None
        return
    with tempfile.TemporaryDirectory(dir=process_folder(), ignore_cleanup_errors=True) as folder:
        store = Path(folder) / "lab"
        pipeline.ingest(paths, store)
        yield store


def example_paths(rows: Sequence[Row]) -> list[Path]:
    """Return the files and folders of the examples that these rows name."""
    return list(dict.fromkeys(path for row in rows for path in _paths(row)))


def describe_example(row: Row) -> str:
    """Describe the example data of a row in a sentence."""
    names = [path.relative_to(DATA).as_posix() for path in _paths(row)]
    generated = [name for name in names if name.startswith("generated/")]
    recorded = [name for name in names if name not in generated]
    parts = [
        *([f"{', '.join(recorded)} (recorded on a CPU)"] if recorded else []),
        *([f"{', '.join(generated)} (generated; no GPU was involved)"] if generated else []),
    ]
    return f"From example data, not from your runs: {'; '.join(parts)}." if parts else "From published figures alone."


def _paths(row: Row) -> list[Path]:
    return [DATA / name for name in row.example if (DATA / name).exists()]
