"""Arrow converts values without pandas where `tracelab ingest` runs."""

import subprocess
import sys

import pytest

_SCRIPT = """
import sys
from tracelab.cli.ingest import skip_pandas_import
if sys.argv[1] == "skip":
    skip_pandas_import()
import pyarrow as pa
table = pa.table({"a": pa.array([1, None], pa.int64()), "b": pa.array(["x", "y"])})
print("pandas" in sys.modules)
print(table.to_pandas()["b"].tolist(), "pandas" in sys.modules)
"""


@pytest.mark.parametrize(("choice", "is_imported"), [("skip", False), ("import", True)])
def test_arrow_imports_pandas_only_to_make_a_data_frame(choice: str, *, is_imported: bool) -> None:
    pytest.importorskip("pandas")
    lines = subprocess.run(
        [sys.executable, "-c", _SCRIPT, choice], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert lines == [str(is_imported), "['x', 'y'] True"]
