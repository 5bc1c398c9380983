"""Processes of the command line import no large packages that they do not use."""

import subprocess
import sys

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


def test_a_summary_imports_nothing_that_draws() -> None:
    code = "import sys, tracelab.report.summary.summarize; print('\\n'.join(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"tracelab.report.summary.summarize", "duckdb"} <= set(modules)
    assert {"matplotlib", "polars", "tracelab.report.document"}.isdisjoint(modules)
