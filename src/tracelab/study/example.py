"""Examples of rows: small runs that ship with tracelab, ingested into a store for the time being."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tracelab.errors import NoDataError
from tracelab.ingest import pipeline
from tracelab.resources import DATA
from tracelab.study.spec import Row


@contextmanager
def store_of(rows: Sequence[Row]) -> Iterator[Path | None]:
    """A store of the examples that these rows name; none where all of them need published figures alone."""
    paths = paths_of(rows)
    if not paths:
        if missing := [row.id for row in rows if not row.alone]:
            raise NoDataError(f"no example data of {', '.join(missing)} ships with tracelab")
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="tracelab-", ignore_cleanup_errors=True) as folder:
        store = Path(folder) / "lab"
        pipeline.ingest(paths, store)
        yield store


def paths_of(rows: Sequence[Row]) -> list[Path]:
    """Return the files and folders of the examples that these rows name."""
    return list(dict.fromkeys(path for row in rows for path in _paths(row)))


def told(row: Row) -> str:
    """What the example of a row is, in a sentence."""
    names = [path.relative_to(DATA).as_posix() for path in _paths(row)]
    generated = [name for name in names if name.startswith("generated/")]
    recorded = [name for name in names if name not in generated]
    parts = [
        *([f"{', '.join(recorded)} (recorded on a processor)"] if recorded else []),
        *([f"{', '.join(generated)} (generated; no GPU was involved)"] if generated else []),
    ]
    return f"From example data, not from your runs: {'; '.join(parts)}." if parts else "Of published figures alone."


def _paths(row: Row) -> list[Path]:
    return [DATA / name for name in row.example if (DATA / name).exists()]
