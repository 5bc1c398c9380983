"""Records runs on one NVIDIA GPU by `tracelab collect` into data/h200: traces, exports of nsys, counters, ceilings.

    python data/record_gpu.py                 all of them
    python data/record_gpu.py alexnet         those whose name contains the word
    python data/record_gpu.py --keep FOLDER   clean the runs in a folder that were recorded so elsewhere

Needs torch and torchvision (`pip install tracelab[collect]`), and ncu for the counters. Before a file is written, what
identifies the machine is removed or replaced: anonymize.py lists each thing.
"""

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from anonymize import replace_machine, scrub, scrub_export

HERE = Path(__file__).parent
TARGET = HERE / "h200"
_TRAINED = "--warmup 3 --wait 2 --active 3 --steps 8 --profiler kineto --shapes --sample-s 0.2"
_IMAGES = f"train image_classification {_TRAINED} --image-size 224 --pin-memory --workers 12"
_NSYS = _IMAGES.replace("--profiler kineto --shapes", "--profiler nsys")
_EACH_PROFILER = "--profiler kineto --profiler nsys --profiler ncu"
_TOKENS = (
    f"train transformer {_TRAINED} --set width=1024 --set layers=4 --set heads=16 --set context=512 "
    "--set vocabulary=8192 --batch-size 16 --optimizer adamw --precision bf16"
)
_COUNTED = "--profiler ncu --warmup 1 --active 1 --steps 2 --sample-s 0.2"
_FORWARD = f"train image_classification {_COUNTED} --window forward --image-size 224 --batch-size 16"
_DECODER = (
    "train decoder --warmup 3 --wait 2 --steps 8 --profiler kineto --keep-attached --shapes --sample-s 0.2 "
    "--set layers=4 --set width=1024 --set heads=16 --set kv_heads=4 --set hidden=2816 --set vocabulary=8192 "
    "--set context=1024 --batch-size 8 --optimizer adamw --precision bf16"
)
RECORDINGS = {
    "alexnet-batch64": f"{_IMAGES} --model alexnet --batch-size 64",
    "alexnet-batch256": f"{_IMAGES} --model alexnet --batch-size 256",
    "resnet18-batch16": f"{_IMAGES} --model resnet18 --batch-size 16",
    "resnet18-batch64": f"{_IMAGES} --model resnet18 --batch-size 64 --memory",
    "vgg16-batch64": f"{_IMAGES} --model vgg16 --batch-size 64",
    "transformer-bf16": _TOKENS,
    "transformer-bf16-graphs": f"{_TOKENS} --cuda-graphs",
    "decoder-recompute": f"{_DECODER} --active 2 --set recompute=2 --stacks",
    "decoder-compiled": f"{_DECODER} --active 3 --compile",
    "vgg16-syncs": f"{_IMAGES} --model vgg16 --batch-size 64 --syncs",
    "alexnet-nsys": f"{_NSYS} --model alexnet --batch-size 64",
    "script": f"run {_EACH_PROFILER} --wait 5 --active 2 -- {sys.executable} {HERE / 'script.py'}",
    "streams": "train streams --wait 1 --active 3 --steps 6 --profiler kineto --sample-s 0.5",
    "alexnet-ncu": f"{_FORWARD} --model alexnet",
    "resnet18-ncu": f"{_FORWARD} --model resnet18",
    "transformer-ncu": (
        f"train transformer {_COUNTED} --window forward --set width=1024 --set layers=2 --set heads=16 "
        "--set context=512 --set vocabulary=8192 --batch-size 8 --precision bf16"
    ),
    "gemm-bf16-ncu": f"train gemm {_COUNTED} --precision bf16 --set size=2048 --set repeats=1",
    "triad-ncu": (
        "train triad --active 1 --steps 6 --profiler ncu --sample-s 0.5 --set elements=4194304 --set repeats=2"
    ),
    "ceilings": "ceilings --quick --only stream --only l2 --only gemm --only copies",
}
"""The options of each run."""


def main(arguments: list[str]) -> None:
    """Record the runs whose names contain the first argument; without one, all."""
    if arguments[:1] == ["--keep"]:
        for run in sorted(path.parent for path in Path(arguments[1]).glob("*/run.json")):
            keep(run)
        return
    wanted = arguments[0] if arguments else ""
    for name, options in RECORDINGS.items():
        if wanted in name:
            with TemporaryDirectory() as out:
                collect = [sys.executable, "-m", "tracelab", "collect", *options.split()]
                subprocess.run([*collect, "--out", out, "--run", name], check=True)
                for run in sorted(Path(out).iterdir()):
                    keep(run)


def keep(run: Path) -> None:
    """Clean the files of a run, and write them to its place; reports of ncu stay behind, because their CSV is kept."""
    target = TARGET / run.name
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(run.iterdir()):
        if path.name.endswith(".trace.json.gz"):
            text = scrub(gzip.decompress(path.read_bytes()).decode(), path.name.removesuffix(".gz"), HERE.parent)
            json.loads(text)
            (target / path.name).write_bytes(gzip.compress(text.encode(), 9, mtime=0))
        elif path.suffix == ".sqlite":
            scrub_export(Path(shutil.copy(path, target)))
        elif path.suffix in (".json", ".jsonl", ".csv"):
            (target / path.name).write_text(replace_machine(path.read_text("utf-8"), run.name), "utf-8")
    print(f"{sum(path.stat().st_size for path in target.iterdir()):>9,} bytes  {target.relative_to(HERE)}")


if __name__ == "__main__":
    main(sys.argv[1:])
