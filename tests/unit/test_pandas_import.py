"""Processes of the command line import no large packages that they do not use."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("arguments", "is_imported"),
    [
        pytest.param(["-m", "tracelab", "schema"], False, id="tracelab"),
        pytest.param(["-c", "import pyarrow as pa; pa.array([''])"], True, id="arrow"),
    ],
)
def test_commands_import_no_pandas(arguments: list[str], *, is_imported: bool) -> None:
    pytest.importorskip("pandas")
    command = [sys.executable, "-X", "importtime", *arguments]
    imports = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
    modules = {line.rpartition("|")[2].strip() for line in imports}
    assert "pyarrow.lib" in modules
    assert ("pandas.core" in modules) == is_imported


def test_an_ingest_begins_before_arrow_is_imported_and_imports_no_more_of_it_than_it_needs(tmp_path: Path) -> None:
    trace = Path(__file__).parents[2] / "data" / "generated" / "generated-4rank-ddp" / "rank0.pt.trace.json.gz"
    command = [sys.executable, "-X", "importtime", "-m", "tracelab", "ingest", trace, "--store", tmp_path / "lab", "-q"]
    imports = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
    modules = [line.rpartition("|")[2].strip() for line in imports]
    assert modules.index("tracelab.ingest.discovery") < modules.index("pyarrow.lib")
    assert {"numpy.ma", "pyarrow.compute"}.isdisjoint(modules)


def test_keeping_and_reading_rows_of_runs_imports_no_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    code = """if True:
        import sys
        from pathlib import Path
        import pyarrow as pa
        from tracelab.paths.columns import nullable_column
        from tracelab.store import rollups
        folder = Path(sys.argv[1])
        written = rollups.write_segment(folder / "ab", {"rows": pa.table({"a": nullable_column([1])})}, {"run": "key"})
        (segment,) = rollups.list_segments(folder)
        print(segment.keys, rollups.read_rows(written / "rows.parquet").to_pydict(), "pandas" in sys.modules)
    """
    printed = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True).stdout
    assert printed == "{'run': 'key'} {'a': [1]} False\n"


def test_a_summary_imports_nothing_that_draws() -> None:
    code = "import sys, tracelab.report.summary.summarize; print('\\n'.join(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"tracelab.report.summary.summarize", "duckdb"} <= set(modules)
    assert {"matplotlib", "polars", "tracelab.report.document"}.isdisjoint(modules)
