"""Sizes of the measurements: large enough that caches and launches do not matter, small enough for a CPU."""

from dataclasses import dataclass

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True)
class Sizes:
    """Sizes of one measurement of a machine."""

    array_bytes: int
    """Bytes of each array of a stream kernel."""
    gemm: int
    """Rows of the square matrices."""
    copies: tuple[int, ...]
    collectives: tuple[int, ...]
    repeats: int
    warmups: int
    most_s: float
    """Approximate time limit of a measurement, which still repeats at least three times."""
    stream_s: float = 0.0
    gemm_s: float = 0.0
    """Minimum time of GPU kernels without a break: in less the GPU does not reach its power limit."""


SIZES = {
    ("cuda", False): Sizes(
        GIB, 8192, tuple(4 * KIB * 4**step for step in range(9)), (KIB, MIB, 16 * MIB, 256 * MIB), 20, 3, 5.0, 1.0, 2.0
    ),
    ("cuda", True): Sizes(256 * MIB, 4096, (16 * KIB, MIB, 64 * MIB), (MIB, 64 * MIB), 10, 2, 1.0, 0.2, 0.5),
    ("cpu", False): Sizes(
        256 * MIB, 1024, tuple(4 * KIB * 4**step for step in range(8)), (KIB, MIB, 16 * MIB), 10, 2, 3.0
    ),
    ("cpu", True): Sizes(32 * MIB, 256, (16 * KIB, MIB, 16 * MIB), (MIB,), 5, 1, 0.5),
}
"""Sizes by device and --quick."""

LEAST_REPEATS = 3
MOST_REPEATS = 10_000
