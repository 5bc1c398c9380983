"""Export reports of nsys (`.nsys-rep`, `.qdrep`) to a temporary file if nsys is installed, else refuse them."""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tracelab.errors import SourceError
from tracelab.temp_folders import process_folder

MAGIC = b"NVIDIA Tegra Profiler Report"
_EXPORT_COMMAND = "`nsys export -t sqlite --include-json=true REPORT`"


def is_report(path: Path) -> bool:
    """Return whether the file is a report, by its first bytes."""
    if path.is_dir():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


@contextlib.contextmanager
def export_report(path: Path) -> Iterator[Path]:
    """Yield the report as an SQLite file that is deleted afterwards. Raises SourceError."""
    nsys = shutil.which("nsys")
    if nsys is None:
        raise SourceError(
            path,
            f"is a report of Nsight Systems, and nsys is not installed here; export it where it is: {_EXPORT_COMMAND}",
        )
    with tempfile.TemporaryDirectory(dir=process_folder()) as folder:
        target = Path(folder) / "report.sqlite"
        yield _run_export(nsys, path, target)


def _run_export(nsys: str, path: Path, target: Path) -> Path:
    """Export with decoded payloads, and without them for older versions, which lack the option."""
    command = [nsys, "export", "--type=sqlite", "--force-overwrite=true", f"--output={target}"]
    error = ""
    for options in (["--include-json=true"], []):
        process = subprocess.run(
            [*command, *options, str(path.resolve())], capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
        if process.returncode == 0 and target.is_file():
            return target
        lines = (process.stderr or process.stdout).decode(errors="replace").strip().splitlines()
        error = lines[-1].strip() if lines else f"exit code {process.returncode}"
    raise SourceError(
        path, f"nsys could not export this report ({error}); export it with a newer nsys: {_EXPORT_COMMAND}"
    )
