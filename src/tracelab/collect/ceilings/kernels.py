"""Measure streams over device memory and the L2 cache, and matrix products, with random data: zeros draw less power."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tracelab.collect.ceilings import rows
from tracelab.collect.ceilings.timing import Bench, Times, measure_times
from tracelab.collect.training.model_setup import set_precision

_DTYPES = {
    "fp32": "float32",
    "tf32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp64": "float64",
    "fp8": "float8_e4m3fn",
    "int8": "int8",
}
_LAYOUTS = ("NN", "NT", "TN")
_ONE_LAYOUT = {"fp8": ("TN",), "int8": ("TN",)}
"""Layouts of products that cuBLAS computes in one layout alone, or much faster in it."""
_AMPERE, _ADA, _TURING = (8, 0), (8, 9), (7, 5)
_SCALAR = 0.4
_L2_SHARES = 16, 4
"""Working sets of the L2 measurement, as divisors of its size: a GPU of two halves may keep a copy in each."""

Measured = tuple[str, Callable[[], Iterator[rows.Row]]]
"""Name of a measurement, and the function that performs it."""


@dataclass(frozen=True)
class Product:
    """A matrix product that a device computes, of operands in one precision and layout."""

    precision: str
    n: int
    layout: str


def measure_streams(bench: Bench) -> Iterator[rows.Row]:
    """Measure copy, scale, add, triad and dot over arrays larger than any cache."""
    works = _stream_works(bench, bench.sizes.array_bytes // 8)
    for kernel in rows.STREAMS:
        yield rows.stream(kernel, bench.sizes.array_bytes // 8 * 8, _sustained_times(bench, works[kernel.metric]))


def measure_l2(bench: Bench) -> Iterator[rows.Row]:
    """Measure copy and triad within the L2 cache, as the difference of two working sets, so that launches cancel."""
    if not bench.cuda:
        raise RuntimeError("measured on GPUs alone: each core of a processor has caches of its own")
    size = l2_bytes(bench)
    if size is None:
        raise RuntimeError("torch does not report the size of the L2 cache of this device")
    lengths = [size // share // 3 // 8 for share in _L2_SHARES]
    works = [_stream_works(bench, length) for length in lengths]
    for kernel in rows.STREAMS:
        if kernel.metric in ("dram_copy", "dram_triad"):
            small, large = (_sustained_times(bench, each[kernel.metric]) for each in works)
            yield from rows.cache_stream(kernel, size, [8 * length for length in lengths], [small, large])


def l2_bytes(bench: Bench) -> int | None:
    """Return the size of the GPU's L2 cache; None where torch does not report it."""
    size = getattr(bench.torch.cuda.get_device_properties(bench.device), "L2_cache_size", None)
    return int(size) if size else None


def _stream_works(bench: Bench, length: int) -> dict[str, Callable[[], object]]:
    torch = bench.torch
    a, b, c = (bench.random(length, dtype=torch.float64) for _ in range(3))
    return {
        "dram_copy": lambda: c.copy_(a),
        "dram_scale": lambda: torch.mul(c, _SCALAR, out=b),
        "dram_add": lambda: torch.add(a, b, out=c),
        "dram_triad": lambda: torch.add(b, c, alpha=_SCALAR, out=a),
        "dram_dot": lambda: torch.dot(a, b),
    }


def gemm_measurements(bench: Bench) -> Iterator[Measured]:
    """Yield a measurement for each precision, with the reason for one that the device does not compute."""
    for precision in _DTYPES:
        reason = unsupported_reason(bench, precision)
        yield f"gemm_{precision}", partial(_refuse, reason) if reason else partial(measure_gemm, bench, precision)


def _refuse(reason: str) -> Iterator[rows.Row]:
    raise RuntimeError(reason)
    yield {}


def measure_gemm(bench: Bench, precision: str) -> Iterator[rows.Row]:
    """Measure products of square matrices in all sizes and layouts."""
    set_precision(bench.torch, precision)
    try:
        for n in bench.sizes.gemms:
            for layout in _ONE_LAYOUT.get(precision, _LAYOUTS):
                left, right = build_operands(bench, Product(precision, n, layout))
                times = _sustained_times(bench, build_product(bench, precision, left, right))
                yield rows.gemm(precision, n, layout, left.element_size(), times)
    finally:
        set_precision(bench.torch, "fp32")


def build_operands(bench: Bench, product: Product) -> tuple[Any, Any]:
    """Return the left and the right operand of a product.

    Layouts are named as cuBLAS does, which takes a row-major product as that of the transposed operands in reverse: its
    first letter is that of the right operand.
    """
    torch, n = bench.torch, product.n
    dtype = getattr(torch, _DTYPES[product.precision])
    if product.precision == "fp8" and _has_unsigned_zero(bench):
        dtype = torch.float8_e4m3fnuz

    def operand(letter: str) -> Any:  # noqa: ANN401
        if dtype == torch.int8:
            stored = torch.randint(-128, 128, (n, n), dtype=dtype, device=bench.device)
        else:
            stored = bench.random(n, n, dtype=dtype)
        return stored.t() if letter == "T" else stored

    right, left = (operand(letter) for letter in product.layout)
    return left, right


def _has_unsigned_zero(bench: Bench) -> bool:
    """Return whether the device computes the form of fp8 that MI300 has: its successors have that of NVIDIA."""
    if not bench.cuda or bench.torch.version.hip is None:
        return False
    return "gfx94" in getattr(bench.torch.cuda.get_device_properties(bench.device), "gcnArchName", "")


def build_product(bench: Bench, precision: str, left: Any, right: Any) -> Callable[[], Any]:  # noqa: ANN401
    """Return the work that multiplies two operands into the same result each time."""
    torch, shape = bench.torch, (left.shape[0], right.shape[1])
    if precision == "fp8":
        one = torch.ones((), device=bench.device)
        out = torch.empty(shape, dtype=torch.bfloat16, device=bench.device)
        scales = {"scale_a": one, "scale_b": one, "out_dtype": torch.bfloat16, "use_fast_accum": bench.cuda}
        return lambda: torch._scaled_mm(left, right, out=out, **scales)
    if precision == "int8":
        out = torch.empty(shape, dtype=torch.int32, device=bench.device)
        return lambda: torch._int_mm(left, right, out=out)
    out = torch.empty(shape, dtype=left.dtype, device=bench.device)
    return lambda: torch.matmul(left, right, out=out)


def unsupported_reason(bench: Bench, precision: str) -> str | None:
    """Return why the device does not compute products in this precision; None where it does."""
    torch = bench.torch
    if not bench.cuda:
        absent = {"tf32": "a processor has no TF32", "fp16": "a processor takes seconds for each product in fp16"}
        return absent.get(precision)
    if torch.version.hip is not None:
        return {"tf32": "this GPU has no TF32", "int8": "torch._int_mm needs an NVIDIA GPU"}.get(precision)
    least = {"tf32": _AMPERE, "bf16": _AMPERE, "fp8": _ADA, "int8": _TURING}.get(precision, (0, 0))
    capability = tuple(torch.cuda.get_device_capability(bench.device))
    if capability < least:
        has, needs = (".".join(map(str, each)) for each in (capability, least))
        return f"needs compute capability {needs}, this GPU has {has}"
    return None


def _sustained_times(bench: Bench, work: Callable[[], object]) -> Times:
    return measure_times(bench, work, window_s=bench.sizes.window_s, warmup_s=bench.sizes.warmup_s)
