"""Records small real training runs on this machine's processor with torch's own profiler.

    python data/record.py            all of them, below data/cpu
    python data/record.py alexnet    those whose name contains the word

Needs torch and torchvision (`pip install tracelab[collect]`). Before a file is written, what says something about
the machine is taken out: scrub.py names each thing.
"""

import gzip
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import torch
from torch import multiprocessing, nn
from torch.profiler import ProfilerActivity, profile, schedule

from scrub import scrub

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "collectors"))

import image_classification  # noqa: E402
import transformer  # noqa: E402

WARMUP = 2
"""Steps before the recorded ones: the first pays for memory and threads, the second for the profiler's own start."""


@dataclass(frozen=True)
class Recording:
    """One run: what trains, what is recorded, and how many processes take part."""

    workload: ModuleType
    settings: image_classification.Settings | transformer.Settings
    profiler: dict[str, bool] = field(default_factory=dict)
    steps: int = 2
    world_size: int = 1


SHAPES_AND_MEMORY = {"record_shapes": True, "profile_memory": True}
RECORDINGS = {
    "alexnet-batch8": Recording(
        image_classification,
        image_classification.Settings("alexnet", batch_size=8, image_size=64),
        SHAPES_AND_MEMORY,
        steps=3,
    ),
    "resnet18-batch4-stacks": Recording(
        image_classification,
        image_classification.Settings("resnet18", batch_size=4, image_size=32),
        SHAPES_AND_MEMORY | {"with_stack": True},
    ),
    "transformer-batch4": Recording(transformer, transformer.Settings(), {"record_shapes": True}, steps=3),
    "squeezenet-batch4-ddp-gloo": Recording(
        image_classification,
        image_classification.Settings("squeezenet1_1", batch_size=4, image_size=64),
        {"record_shapes": True},
        world_size=2,
    ),
}


def main() -> None:
    """Record the runs whose names contain the first argument; without one, all."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    for name, recording in RECORDINGS.items():
        if wanted not in name:
            continue
        if recording.world_size == 1:
            record(recording, HERE / "cpu" / f"{name}.pt.trace.json.gz")
        else:
            multiprocessing.spawn(record_rank, (name,), recording.world_size)


def record_rank(rank: int, name: str) -> None:
    """Take part in a run of several processes, and record this one."""
    recording = RECORDINGS[name]
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29533"}
    torch.distributed.init_process_group("gloo", rank=rank, world_size=recording.world_size)
    record(recording, HERE / "cpu" / name / f"rank{rank}.pt.trace.json.gz")
    torch.distributed.destroy_process_group()


def record(recording: Recording, target: Path) -> None:
    """Train for the warm-up and the recorded steps, and write the cleaned trace."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = recording.workload.model(recording.settings).to(recording.settings.device)
    if recording.world_size > 1:
        network = nn.parallel.DistributedDataParallel(network)
    step = recording.workload.workload(recording.settings, network)
    plan = schedule(wait=0, warmup=WARMUP, active=recording.steps, repeat=1)
    with TemporaryDirectory() as folder:
        raw = Path(folder) / "trace.json"
        with profile(
            activities=[ProfilerActivity.CPU],
            schedule=plan,
            on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(raw)),
            **recording.profiler,
        ) as profiler:
            for _ in range(WARMUP + recording.steps):
                step(*recording.workload.batch(recording.settings))
                profiler.step()
        text = scrub(raw.read_text(), target.name.removesuffix(".gz"), HERE.parent)
    json.loads(text)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{target.stat().st_size:>9,} bytes  {target.relative_to(HERE)}")


if __name__ == "__main__":
    main()
