"""Records small real training runs on this machine's processor with torch's own profiler, by `tracelab collect train`.

    python data/record.py            all of them, below data/cpu
    python data/record.py alexnet    those whose name contains the word

Needs torch and torchvision (`pip install tracelab[collect]`). Before a file is written, what says something about
the machine is removed: anonymize.py lists each thing.
"""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from anonymize import scrub

HERE = Path(__file__).parent
IMAGES = "image_classification --model"
RECORDINGS = {
    "alexnet-batch8": f"{IMAGES} alexnet --batch-size 8 --image-size 64 --shapes --memory --steps 3",
    "resnet18-batch4-stacks": f"{IMAGES} resnet18 --batch-size 4 --shapes --memory --stacks --steps 2",
    "transformer-batch4": "transformer --batch-size 4 --optimizer adamw --learning-rate 3e-4 --shapes --steps 3",
    "squeezenet-batch4-ddp-gloo": (
        f"{IMAGES} squeezenet1_1 --batch-size 4 --image-size 64 --parallel ddp --gpus 2 --shapes --steps 2"
    ),
}
"""The options of each run; two steps of warm-up come before what is recorded."""


def main() -> None:
    """Record the runs whose names contain the first argument; without one, all."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    for name, options in RECORDINGS.items():
        if wanted in name:
            with TemporaryDirectory() as out:
                record(name, options.split(), Path(out))


def record(name: str, options: list[str], out: Path) -> None:
    """Train, and keep the cleaned traces: of one rank a file, of several a folder."""
    command = [
        sys.executable,
        "-m",
        "tracelab",
        "collect",
        "train",
        *options,
        "--profiler",
        "kineto",
        "--device",
        "cpu",
    ]
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([*command, "--out", str(out), "--run", name], check=True, env=one_thread)
    traces = sorted((out / name).glob("rank*.pt.trace.json.gz"))
    for trace in traces:
        keep(trace, HERE / "cpu" / (f"{name}.pt.trace.json.gz" if len(traces) == 1 else f"{name}/{trace.name}"))


def keep(trace: Path, target: Path) -> None:
    """Clean a trace, and write it to its place."""
    text = scrub(gzip.decompress(trace.read_bytes()).decode(), target.name.removesuffix(".gz"), HERE.parent)
    json.loads(text)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{target.stat().st_size:>9,} bytes  {target.relative_to(HERE)}")


if __name__ == "__main__":
    main()
