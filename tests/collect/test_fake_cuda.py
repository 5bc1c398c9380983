"""The fake CUDA raises what CUDA would, and what CUDA would do wrongly without a word."""

import threading

import pytest

from tests.needs import needs_torch, torch

pytestmark = needs_torch


@pytest.fixture
def cuda(monkeypatch):
    from tests.collect import fake_cuda

    with fake_cuda.installed(monkeypatch) as state:
        yield state


def test_a_tensor_on_a_gpu_is_marked_and_so_is_what_is_computed_from_it(cuda):
    host = torch.ones(2, 2)
    there = host.to(torch.device("cuda", 1))
    assert (host.is_cuda, there.is_cuda, (there @ host).is_cuda, torch.randn(2, device="cuda:0").is_cuda) == (
        False,
        True,
        True,
        True,
    )
    assert not there.cpu().is_cuda
    network = torch.nn.Linear(2, 2).to(torch.device("cuda", 0))
    assert (network.weight.is_cuda, network(there).is_cuda) == (True, True)


@pytest.mark.parametrize("use", [
    lambda: torch.cuda.set_device(2),
    lambda: torch.ones(1).to("cuda:2"),
    lambda: torch.cuda.get_device_properties(-1),
    lambda: torch.cuda.max_memory_allocated(5),
])  # fmt: skip
def test_an_ordinal_that_does_not_exist_is_an_error(cuda, use):
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        use()


def test_the_time_between_events_is_known_once_both_were_recorded_and_reached(cuda):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    with pytest.raises(RuntimeError, match="not recorded"):
        begin.elapsed_time(end)
    torch.cuda._sleep(20_000_000)
    end.record()
    with pytest.raises(RuntimeError, match="device not ready"):
        begin.elapsed_time(end)
    torch.cuda.synchronize()
    assert begin.elapsed_time(end) == pytest.approx(20, abs=5)


def test_a_recorded_step_may_not_wait_for_the_device(cuda):
    from tests.collect.fake_cuda import BrokenRuleError

    loss = torch.ones(1).to("cuda")
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    with torch.cuda.nvtx.range("ProfilerStep#0"):
        for wait in (torch.cuda.synchronize, loss.item, loss.cpu):
            with pytest.raises(BrokenRuleError, match="within a recorded step"):
                wait()
    loss.item()
    with pytest.raises(BrokenRuleError, match="its last kernels are lost"):
        torch.cuda.profiler.stop()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def test_a_capture_may_not_wait_for_the_device_nor_pin_memory(cuda):
    class Waits(torch.nn.Module):
        def forward(self, x):
            return x * x.sum().item()

    class Pins(torch.nn.Module):
        def forward(self, x):
            return x + torch.empty(2, pin_memory=True)

    sample = torch.ones(2).to("cuda")
    for network in (Waits(), Pins()):
        with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
            torch.cuda.make_graphed_callables(network, (sample,))


def test_a_graph_replays_the_captured_shapes_alone(cuda):
    graphed = torch.cuda.make_graphed_callables(torch.nn.Linear(3, 1), (torch.ones(2, 3).to("cuda"),))
    assert graphed(torch.ones(2, 3).to("cuda")).shape == (2, 1)
    with pytest.raises(RuntimeError, match="cannot replay"):
        graphed(torch.ones(1, 3).to("cuda"))
    assert graphed.eval()(torch.ones(1, 3).to("cuda")).shape == (1, 1)


def test_a_replica_computes_in_the_type_of_the_program(cuda):
    from tests.collect.fake_cuda import BrokenRuleError

    errors = []

    def replica():
        with torch.autocast("cuda"):
            try:
                torch.ones(2, 2) @ torch.ones(2, 2)
            except BrokenRuleError as error:
                errors.append(str(error))

    with torch.autocast("cuda", torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
        thread = threading.Thread(target=replica)
        thread.start()
        thread.join()
    assert errors == ["a replica computes matmul in torch.float16, and the program in torch.bfloat16"]


def test_a_copy_into_pinned_memory_does_not_wait_and_another_does(cuda):
    loss = torch.ones(2).to("cuda")
    torch.empty(2, pin_memory=True).copy_(loss, non_blocking=True)
    assert cuda.calls == ["pinned"]
    torch.empty(2).copy_(loss)
    assert cuda.calls == ["pinned", "host-wait copy_"]


def test_a_function_that_the_harness_does_not_model_is_named(cuda):
    from tests.collect.fake_cuda import BrokenRuleError

    with pytest.raises(BrokenRuleError, match=r"torch\.cuda\.memory_stats is called"):
        torch.cuda.memory_stats()
