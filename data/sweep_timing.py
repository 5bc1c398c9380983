"""Cells of the generated sweeps: their settings, and their step times and memory by simple rules."""

from dataclasses import dataclass, field

GENERATED = "by data/sweeps.py; no GPU was involved"
GPU = "Generated GPU (not a real device)"
MEMORY_BYTES = 16_000_000_000
DATASET_SIZE = 1_280
FLOP_PER_NS = {"fp32": 6_000, "tf32": 11_000, "fp16": 17_000, "bf16": 16_000}
CPU_FLOP_PER_NS = 120
LINK_BYTES_PER_NS = 12
COPY_BYTES_PER_NS = {"Pinned": 24, "Pageable": 6}
IMAGE_BYTES = 4 * 3 * 224 * 224
LOAD_NS = 900_000
"""What loading one image takes one worker."""


@dataclass(frozen=True)
class Model:
    """A network of torchvision: parameters and FLOPs of one image, as its layers have them; the rest is invented."""

    parameters: int
    flop: int
    activation_bytes: int
    fixed_ns: int
    winograd: float
    """Share of its computation in Winograd convolutions at large batches."""


MODELS = {
    "alexnet": Model(61_100_840, 1_428_377_728, 8_000_000, 4_000_000, 0.16),
    "resnet18": Model(11_689_512, 3_628_146_688, 25_000_000, 9_000_000, 0.34),
    "vgg16": Model(138_357_544, 30_940_528_640, 110_000_000, 6_000_000, 0.45),
    "vgg16_bn": Model(138_365_992, 30_968_000_000, 130_000_000, 8_000_000, 0.45),
    "vgg19": Model(143_667_240, 39_265_000_000, 118_000_000, 7_000_000, 0.46),
    "squeezenet": Model(1_235_496, 698_000_000, 14_000_000, 7_000_000, 0.2),
    "densenet121": Model(7_978_856, 5_666_000_000, 60_000_000, 24_000_000, 0.3),
}


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    model: str
    batch: int
    gpus: int = 1
    parallel: str = "none"
    precision: str = "fp32"
    pin_memory: bool = True
    workers: int = 4
    epochs: int = 1
    pretrained: bool = False
    learning_rate: float = 0.01
    dataset: str = "synthetic"
    sweep: str = ""
    status: str = "ok"
    gpu: str = GPU
    name: str = ""
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def run(self) -> str:
        """The name of the run, made from what varies."""
        words = [self.sweep, self.model, f"b{self.batch}"]
        words += ["cpu"] if not self.gpus else [f"g{self.gpus}", self.parallel] if self.gpus > 1 else ["g1"]
        words += [] if self.pin_memory else ["pageable"]
        words += [] if self.workers == 4 else [f"w{self.workers}"]
        words += [] if self.precision == "fp32" else [self.precision]
        words += ["pretrained"] if self.pretrained else []
        words += [] if self.learning_rate == 0.01 else [f"lr{self.learning_rate:g}"]
        return self.name or "-".join(words)

    @property
    def network(self) -> Model:
        """The model's sizes."""
        return MODELS[self.model]

    @property
    def processes(self) -> int:
        """Ranks."""
        return self.gpus if self.parallel == "ddp" else 1

    @property
    def samples_a_gpu(self) -> int:
        """Samples of a step on one device: DataParallel divides a batch."""
        return -(-self.batch // self.gpus) if self.parallel == "dp" else self.batch

    @property
    def steps(self) -> list[int]:
        """Samples of each step of one rank: its share of the data set, the last step what is left of it."""
        share = DATASET_SIZE // self.processes
        return [min(self.batch, share - at) for at in range(0, share, self.batch)]

    @property
    def overflows(self) -> bool:
        """Whether a device has not enough memory."""
        return self.gpus > 0 and max(peaks(self)) > MEMORY_BYTES

    def wait_ns(self, dur_ns: int) -> int:
        """How long a step waits for the loader: for what it loads itself, or for workers slower than the device."""
        load_ns = LOAD_NS * self.batch // max(self.workers, 1)
        return load_ns if not self.workers else max(40_000, load_ns - dur_ns)

    def description(self) -> dict[str, object]:
        """Return the contents of run.json."""
        ran = self.status != "not_run"
        errors = {"oom": "CUDA out of memory", "timeout": "the time limit of 600 s ended the run"}
        return {
            "tracelab": "run/1",
            "run": self.run,
            "generated": GENERATED,
            "program": f"image_classification --model {self.model} --batch-size {self.batch}",
            "workload": "image_classification",
            "model": self.model,
            "dataset": self.dataset,
            "image_size": 224,
            "batch_size": self.batch,
            "global_batch_size": self.batch * self.processes,
            "gpus": self.gpus,
            "world_size": self.processes,
            "parallelism": self.parallel,
            "precision": self.precision,
            "optimizer": "sgd",
            "learning_rate": self.learning_rate,
            "data_fraction": 1.0,
            "pin_memory": self.pin_memory,
            "workers": self.workers,
            "pretrained": self.pretrained,
            "epochs": self.epochs,
            "sweep": self.sweep,
            "repeat": 0,
            "profiler": "none" if self.epochs > 1 or self.tags else "kineto",
            "parameters": self.network.parameters if ran else None,
            "parameter_bytes": 4 * self.network.parameters if ran else None,
            "flop_per_sample": float(self.network.flop) if ran else None,
            "status": self.status,
            "error": errors.get(self.status),
            "host": "generated",
            "gpu": self.gpu if ran and self.gpus else None,
            "axes": {"device": "cuda" if self.gpus else "cpu", "window": "step"},
            "tags": self.tags,
            **({"dataset_size": DATASET_SIZE if self.dataset == "synthetic" else 50_000} if ran else {}),
        }

    def flops(self) -> dict[str, object]:
        """What torch's profiler would write beside its ops, for one recorded step: forward, and twice that backward."""
        total = 3 * self.network.flop * self.batch
        rows = [("aten::cudnn_convolution", 9, 0.31), ("aten::convolution_backward", 8, 0.61), ("aten::addmm", 3, 0.08)]
        return {
            "tracelab": "ops/1",
            "run": self.run,
            "rank": 0,
            "generated": GENERATED,
            "kind": "key_averages",
            "ops": [{"name": name, "calls": calls, "flop": round(total * share)} for name, calls, share in rows],
        }


def parameter_bytes(cell: Cell) -> int:
    """Bytes of the parameters in single precision."""
    return 4 * cell.network.parameters


def compute_ns(cell: Cell) -> int:
    """Forward and backward pass of what one device gets: a third, and two thirds."""
    speed = FLOP_PER_NS[cell.precision] if cell.gpus else CPU_FLOP_PER_NS
    return 3 * cell.network.flop * cell.samples_a_gpu // speed


def broadcast_ns(cell: Cell) -> int:
    """DataParallel sends all parameters to the other devices in every step, whatever the batch."""
    return parameter_bytes(cell) * (cell.gpus - 1).bit_length() // LINK_BYTES_PER_NS if cell.parallel == "dp" else 0


def reduce_ns(cell: Cell) -> int:
    """Gradients: DataParallel reduces them on the first device, DDP among all."""
    if cell.parallel == "dp":
        return broadcast_ns(cell)
    share = 2 * (cell.gpus - 1) / cell.gpus if cell.parallel == "ddp" else 0
    return round(parameter_bytes(cell) * share / LINK_BYTES_PER_NS)


def copy_ns(cell: Cell) -> int:
    """The images of one device."""
    memory = "Pinned" if cell.pin_memory else "Pageable"
    return IMAGE_BYTES * cell.samples_a_gpu // COPY_BYTES_PER_NS[memory] if cell.gpus else 0


def step_ns(cell: Cell) -> int:
    """One step; DDP hides half of its communication, pinned memory all of its copies."""
    exposed = broadcast_ns(cell) + (reduce_ns(cell) if cell.parallel == "dp" else reduce_ns(cell) // 2)
    copies = 0 if cell.pin_memory else copy_ns(cell)
    busy_ns = cell.network.fixed_ns + compute_ns(cell) + exposed + copies
    return busy_ns + cell.wait_ns(busy_ns)


def peaks(cell: Cell) -> list[int]:
    """The most memory of each device: DataParallel keeps optimizer, outputs and summed gradients on the first."""
    held, activations = parameter_bytes(cell), cell.network.activation_bytes * cell.samples_a_gpu
    if cell.parallel != "dp":
        return [3 * held + activations] * max(cell.gpus, 1)
    outputs = 64_000 * cell.batch
    return [4 * held + activations + outputs, *[2 * held + activations] * (cell.gpus - 1)]
