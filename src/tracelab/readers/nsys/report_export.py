"""Reports that nsys has not exported (`.nsys-rep`, `.qdrep`): exported aside where nsys is there, else refused."""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tracelab.errors import SourceError

MAGIC = b"NVIDIA Tegra Profiler Report"
_HOW = "`nsys export -t sqlite --include-json=true REPORT`"


def is_report(path: Path) -> bool:
    """Whether the file begins as a report does."""
    if path.is_dir():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


@contextlib.contextmanager
def export_report(path: Path) -> Iterator[Path]:
    """The report as an SQLite file, gone at the end. Raises SourceError."""
    nsys = shutil.which("nsys")
    if nsys is None:
        raise SourceError(path, f"is a report of Nsight Systems; export it where nsys is installed: {_HOW}")
    with tempfile.TemporaryDirectory(prefix="tracelab-") as folder:
        target = Path(folder) / "report.sqlite"
        yield _run_export(nsys, path, target)


def _run_export(nsys: str, path: Path, target: Path) -> Path:
    """Export with what a payload is decoded to, and without, for older versions know no such option."""
    command = [nsys, "export", "--type=sqlite", "--force-overwrite=true", f"--output={target}"]
    last = ""
    for options in (["--include-json=true"], []):
        done = subprocess.run(
            [*command, *options, str(path.resolve())], capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
        if done.returncode == 0 and target.is_file():
            return target
        lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        last = lines[-1].strip() if lines else f"it ended with {done.returncode}"
    raise SourceError(path, f"nsys could not export this report ({last}); export it with a newer nsys: {_HOW}")
