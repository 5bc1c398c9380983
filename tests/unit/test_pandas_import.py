"""Arrow converts values without pandas in a process of the command line."""

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
