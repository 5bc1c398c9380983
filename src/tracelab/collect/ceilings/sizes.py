"""Sizes of the measurements: large enough that caches and launches do not matter, small enough for a CPU."""

from dataclasses import dataclass

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True)
class Sizes:
    """Sizes of one measurement of a machine."""

    array_bytes: int
    """Bytes of each array of a stream kernel."""
    gemms: tuple[int, ...]
    """Rows of the square matrices."""
    copies: tuple[int, ...]
    collectives: tuple[int, ...]
    repeats: int
    warmups: int
    most_s: float
    """Approximate time limit of a measurement without a window; it still repeats at least three times."""
    warmup_s: float = 0.0
    """Continuous load before the sustained window: a GPU needs about a second to reach its power limit."""
    window_s: float = 0.0
    """Sustained window; 0 measures none."""
    calls: int = 1
    """Calls of a collective between two readings of the clock."""

    @property
    def peer_copies(self) -> tuple[int, ...]:
        """Return the sizes of copies between GPUs, of which a node of eight has 56 pairs."""
        return tuple(dict.fromkeys((self.copies[0], self.copies[len(self.copies) // 2], self.copies[-1])))


SIZES = {
    ("cuda", False): Sizes(
        array_bytes=GIB,
        gemms=(2048, 4096, 8192, 16384),
        copies=tuple(4 * KIB * 4**step for step in range(9)),
        collectives=tuple(KIB * 4**step for step in range(12)),  # 1 KiB to 4 GiB
        repeats=20,
        warmups=3,
        most_s=5.0,
        warmup_s=1.0,
        window_s=1.0,
        calls=20,
    ),
    ("cuda", True): Sizes(
        array_bytes=256 * MIB,
        gemms=(4096, 8192),
        copies=(16 * KIB, MIB, 64 * MIB),
        collectives=(MIB, 64 * MIB, GIB),
        repeats=10,
        warmups=2,
        most_s=1.0,
        warmup_s=0.3,
        window_s=0.3,
        calls=20,
    ),
    ("cpu", False): Sizes(
        array_bytes=256 * MIB,
        gemms=(512, 1024),
        copies=tuple(4 * KIB * 4**step for step in range(8)),
        collectives=(KIB, MIB, 16 * MIB),
        repeats=10,
        warmups=2,
        most_s=3.0,
        warmup_s=0.2,
        window_s=0.5,
        calls=3,
    ),
    ("cpu", True): Sizes(
        array_bytes=32 * MIB,
        gemms=(256,),
        copies=(16 * KIB, MIB, 16 * MIB),
        collectives=(MIB,),
        repeats=5,
        warmups=1,
        most_s=0.5,
        warmup_s=0.02,
        window_s=0.05,
        calls=2,
    ),
}
"""Sizes by device and --quick."""

LEAST_REPEATS = 3
MOST_REPEATS = 10_000
