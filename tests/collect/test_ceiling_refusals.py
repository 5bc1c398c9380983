"""What a device cannot do, and what goes wrong while ceilings are measured, is told and measured around."""

import signal
from types import SimpleNamespace

import pytest

from tests.collect import fake_cuda
from tests.needs import needs_torch, torch
from tracelab.collect.ceilings import copies, kernels, links, run
from tracelab.collect.ceilings.sizes import Sizes
from tracelab.collect.ceilings.timing import Bench
from tracelab.collect.process.launch import Interrupted
from tracelab.errors import UsageError

pytestmark = needs_torch
TINY = Sizes(1 << 14, (16,), (4096, 65536), (4096,), repeats=3, warmups=1, most_s=20.0)


def gpu(*, capability=(9, 0), hip=None, **properties):
    """Return the bench of a GPU with this compute capability, or of AMD's with this version of HIP."""
    known = SimpleNamespace(**properties)
    cuda = SimpleNamespace(get_device_capability=lambda _: capability, get_device_properties=lambda _: known)
    own = SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip=hip))
    return Bench(own, SimpleNamespace(type="cuda", index=0), TINY)


@pytest.mark.parametrize(
    ("bench", "precision", "reason"),
    [
        (gpu(capability=(7, 0)), "bf16", "needs compute capability 8.0, this GPU has 7.0"),
        (gpu(capability=(8, 6)), "fp8", "needs compute capability 8.9, this GPU has 8.6"),
        (gpu(capability=(7, 5)), "int8", None),
        (gpu(), "fp8", None),
        (gpu(hip="6.4"), "tf32", "this GPU has no TF32"),
        (gpu(hip="6.4"), "int8", "torch._int_mm needs an NVIDIA GPU"),
        (gpu(hip="6.4"), "fp8", None),
    ],
)
def test_a_precision_that_a_gpu_lacks_is_named(bench, precision, reason):
    assert kernels.unsupported_reason(bench, precision) == reason


@pytest.mark.parametrize(
    ("hip", "name", "dtype"),
    [("6.4", "gfx942:sramecc+", "float8_e4m3fnuz"), ("7.0", "gfx950", "float8_e4m3fn"), (None, "", "float8_e4m3fn")],
)
def test_operands_in_fp8_have_the_form_of_the_chip(monkeypatch, hip, name, dtype):
    with fake_cuda.installed(monkeypatch, 1):
        properties = SimpleNamespace(gcnArchName=name)
        monkeypatch.setattr(torch.version, "hip", hip)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
        bench = Bench(torch, torch.device("cuda", 0), TINY)
        left, right = kernels.build_operands(bench, kernels.Product("fp8", 16, "TN"))
    assert (left.dtype, right.dtype) == (getattr(torch, dtype),) * 2


@pytest.mark.parametrize(
    ("bench", "reason"),
    [
        (Bench(torch, SimpleNamespace(type="cpu"), TINY), "measured on GPUs alone"),
        (gpu(), "torch does not report the size of the L2 cache"),
    ],
)
def test_a_cache_of_unknown_size_is_not_measured(bench, reason):
    with pytest.raises(RuntimeError, match=reason):
        next(kernels.measure_l2(bench))


def test_gpus_that_cannot_access_each_other_copy_through_the_host(monkeypatch):
    with fake_cuda.installed(monkeypatch, 2):
        monkeypatch.setattr(torch.cuda, "can_device_access_peer", lambda _source, _target: False)
        rows = list(copies.measure_peer_copies(Bench(torch, torch.device("cuda", 1), TINY), 1, 0))
    assert {row["counting"].partition("; mean")[0] for row in rows} == {
        "bytes copied, once; through host memory: the GPUs cannot access each other"
    }


def test_an_error_of_one_direction_ends_both(monkeypatch):
    def fails():
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with fake_cuda.installed(monkeypatch, 1), pytest.raises(RuntimeError, match="an illegal memory access"):
        copies._time_in_threads(Bench(torch, torch.device("cuda", 0), TINY), [lambda: None, fails])


@pytest.mark.parametrize(
    ("own_fits", "reason"), [(False, "out of memory"), (True, "another rank has too little memory")]
)
def test_a_size_beyond_the_memory_of_one_rank_is_left_out_by_all(monkeypatch, own_fits, reason):
    def allocate(*_size, device):
        if not own_fits:
            raise RuntimeError("out of memory")
        return torch.zeros(1)

    votes = []
    dist = SimpleNamespace(
        get_world_size=lambda: 2,
        ReduceOp=torch.distributed.ReduceOp,
        all_reduce=lambda fits, op: (votes.append(fits.item()), fits.zero_()),
    )
    with monkeypatch.context() as patch:
        patch.setattr(torch, "rand", allocate)
        with pytest.raises(RuntimeError, match=reason):
            links._build(torch, dist, torch.device("cpu"), "all_reduce", 4096)
    assert votes == [float(own_fits)]  # each votes before it gives up, so that no other waits


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"device": "cuda"}, "torch sees no GPU; check nvidia-smi"),
        ({"device": "cpu", "gpu": ("0",)}, "--gpu 0: no GPU is measured here; remove the option"),
    ],
)
def test_gpus_that_are_not_there_are_refused(tmp_path, options, sentence):
    with pytest.raises(UsageError, match=sentence):
        run.measure(run.CeilingOptions(**options, out=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_more_ranks_than_gpus_are_refused(tmp_path, monkeypatch):
    with fake_cuda.installed(monkeypatch, 2), pytest.raises(UsageError, match="--gpus 3: torch sees 2 GPUs"):
        run.measure(run.CeilingOptions("cuda", ranks=3, out=tmp_path))


def test_an_interrupted_measurement_keeps_what_it_has(tmp_path, monkeypatch):
    def interrupted(_session, _options, _targets):
        raise Interrupted(signal.SIGINT)

    monkeypatch.setattr(run._Session, "measure", interrupted)
    result = run.measure(run.CeilingOptions("cpu", out=tmp_path, run="c"))
    assert (result.status, result.error) == ("failed", "interrupted; earlier measurements are kept")
    assert result.interrupted == signal.SIGINT
