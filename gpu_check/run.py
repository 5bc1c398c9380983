"""Check tracelab on the first real GPU, in under ten minutes: `make gpu-check`, or with torch's Python

    python gpu_check/run.py                        # needs torch, torchvision and click; no network, no duckdb
    python gpu_check/run.py --device cpu --quick   # the parts that need no GPU, small

It records workloads of known result by each profiler that is there, measures ceilings against the data sheet, and the
cost of profiling. The folder and the .tar.gz beside it (at most 15 MiB) hold what was recorded; `gpu_check/compare.py`
compares them with the queries on a laptop. Exit codes: 0 every check held, 1 one failed, 2 a wrong option, 3 no GPU;
make itself exits with 2 for all but the first.
"""

import argparse
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from truths import use_checkout  # noqa: E402

use_checkout()

from node_checks import Node  # noqa: E402
from outcome import exit_code, render_table, write_checks  # noqa: E402
from package import pack  # noqa: E402

NO_GPU = 3
LIMIT_S = 570.0


def main(arguments: list[str] | None = None) -> int:
    """Run the checks and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="what to check (default: the GPUs)")
    parser.add_argument("--out", type=Path, default=Path("gpu-check-out"), help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="shorter runs, for a trial")
    parser.add_argument("--only", action="append", choices=Node.PARTS, help="only these parts; repeatable")
    options = parser.parse_args(arguments)
    torch = _import_torch()
    if torch is None:
        print("gpu-check: torch is not installed for this Python; install it, or set GPU_PYTHON to one that has it")
        return NO_GPU
    if options.device == "cuda" and not torch.cuda.is_available():
        print("gpu-check: torch sees no GPU on this machine; run it on a GPU node, or add --device cpu for a trial")
        return NO_GPU
    if options.out.exists() and any(options.out.iterdir()):
        parser.error(f"{options.out} is not empty; remove it, or choose another --out")
    options.out.mkdir(parents=True, exist_ok=True)
    node = Node(options.out, options.device, quick=options.quick, until=time.monotonic() + LIMIT_S)
    for check in node.run(tuple(options.only or Node.PARTS)):
        print(f"{check.status:<8}{check.name}: {check.measured} {check.reason}".rstrip(), flush=True)
    node.write_facts()
    write_checks(options.out, "checks", node.checks)
    archive, left_out = pack(options.out)
    print(render_table(node.checks))
    for name in left_out:
        print(f"left out of the archive: {name}")
    print(f"{archive}: commit it, and on a laptop run: python gpu_check/compare.py {archive}")
    return exit_code(node.checks)


def _import_torch():  # noqa: ANN202  a module or None
    try:
        import torch
    except ImportError:
        return None
    return torch


if __name__ == "__main__":
    sys.exit(main())
