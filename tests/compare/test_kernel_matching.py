"""Kernels of two versions, stage by stage."""

from dataclasses import replace

import pytest

from tracelab.compare.kernel_matching import (
    Kernel,
    KernelMatch,
    Launch,
    UnmatchedClass,
    match_kernels,
    normalize_key,
)


def kernels(**times: float) -> list[Kernel]:
    return [Kernel(name, name, "gemm", dur_ns) for name, dur_ns in times.items()]


def launch(name: str, dur_ns: float = 10, **known: object) -> Launch:
    plain = Launch(name, "gemm", 8, None, None, None, None, dur_ns)
    return replace(plain, **known)  # type: ignore[arg-type]  # fields by name


@pytest.mark.parametrize(
    ("key", "normalized"),
    [
        ("triton_poi_fused_add_relu_12", "triton_poi_fused_add_relu"),
        ("triton_red_fused_native_layer_norm_3", "triton_red_fused_native_layer_norm"),
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_nn"),
        ("nvjet_hsh_192x192_64x3_1x2_h_bz_coopB_NNT", "nvjet_hsh_h_bz_coopB_NNT"),
        ("cutlass_80_tensorop_s1688gemm_128x256_16x3_nn_align4", "cutlass_80_tensorop_s1688gemm_nn"),
        ("reduce_kernel", "reduce_kernel"),
        ("12", "12"),
    ],
)
def test_key_has_no_tiles_and_no_index(key: str, normalized: str) -> None:
    assert normalize_key(key) == normalized


def test_kernels_that_are_called_kernel_go_by_their_template_argument() -> None:
    base = [Kernel("gemm::kernel<impl::dgrad<float, 3>>", "kernel", "gemm", 10)]
    candidate = [
        Kernel("gemm::kernel<impl::fprop<float, 4>>", "kernel", "gemm", 10),
        Kernel("gemm::kernel<impl::dgrad<float, 4>>", "kernel", "gemm", 20),
    ]
    (match,) = match_kernels(base, candidate).matches
    assert (match.candidate, match.key) == ((candidate[1].name,), "impl::dgrad")


def test_equal_names_match_first_and_shares_are_of_kernel_time() -> None:
    matching = match_kernels(kernels(a=30, b=70), kernels(a=50, c=50))
    assert matching.matches == (KernelMatch("name", ("a",), ("a",)),)
    assert matching.shares == {"name": (0.3, 0.5)}
    assert matching.unmatched() == [UnmatchedClass("gemm", 70, 50, ("b", "c"))]
    assert matching.unmatched({"b"}) == [UnmatchedClass("gemm", 0, 50, ("c",))]


def test_all_names_of_one_function_match_together() -> None:
    base = [Kernel("gemm<1>", "gemm", "gemm", 10), Kernel("gemm<2>", "gemm", "gemm", 30)]
    candidate = [Kernel("gemm<3>", "gemm", "gemm", 20)]
    (match,) = match_kernels(base, candidate).matches
    assert match == KernelMatch("key", ("gemm<2>", "gemm<1>"), ("gemm<3>",), "gemm")
    assert match.label == "gemm, 2 and 1 variants"


def test_new_variant_joins_the_only_kernel_of_its_function() -> None:
    base = kernels(sgemm_64x64_nn=10, sgemm_128x64_nn=30)
    matching = match_kernels(base, kernels(sgemm_64x64_nn=35))
    assert matching.matches == (
        KernelMatch("key", ("sgemm_64x64_nn", "sgemm_128x64_nn"), ("sgemm_64x64_nn",), "sgemm_nn"),
    )
    assert matching.matched == (1, 1)


def test_kernels_of_one_op_with_one_shape_match_by_their_place_in_the_call() -> None:
    base = [
        launch("old1", op="aten::mm", op_call=1, shapes="[[2,3]]"),
        launch("old2", op="aten::mm", op_call=1, shapes="[[2,3]]"),
        launch("other", op="aten::mm", op_call=2, shapes="[[9,9]]"),
    ]
    candidate = [
        launch("extra", op="aten::add", op_call=7, shapes="[[2,3]]"),
        launch("new1", op="aten::mm", op_call=8, shapes="[[2,3]]"),
        launch("new2", op="aten::mm", op_call=8, shapes="[[2,3]]"),
    ]
    matching = match_kernels(
        kernels(old1=10, old2=10, other=10), kernels(new1=10, new2=10, extra=10), lambda: (base, candidate)
    )
    assert [each for each in matching.matches if each.stage == "op"] == [
        KernelMatch("op", ("old1",), ("new1",)),
        KernelMatch("op", ("old2",), ("new2",)),
    ]
    assert matching.matches[0].label == "old1 → new1"


def test_kernels_of_one_range_match_by_class_and_place() -> None:
    base = [launch("old", range_name="decoder"), launch("norm1", cls="norm", range_name="decoder")]
    candidate = [launch("norm2", cls="norm", range_name="decoder"), launch("new", range_name="decoder")]
    sides = [[Kernel(each.name, each.name, each.cls, each.dur_ns) for each in step] for step in (base, candidate)]
    matching = match_kernels(sides[0], sides[1], lambda: (base, candidate))
    assert {(each.stage, *each.base, *each.candidate) for each in matching.matches} == {
        ("range", "old", "new"),
        ("range", "norm1", "norm2"),
    }


def test_the_rest_matches_by_order_class_and_size_of_grid() -> None:
    base = [launch("a"), launch("old", blocks=100), launch("b")]
    candidate = [launch("a"), launch("new", blocks=120), launch("b"), launch("late", blocks=4)]
    matching = match_kernels(
        kernels(a=10, old=10, b=10), kernels(a=10, new=10, b=10, late=10), lambda: (base, candidate)
    )
    assert [each for each in matching.matches if each.stage != "name"] == [KernelMatch("order", ("old",), ("new",))]
    assert matching.unmatched() == [UnmatchedClass("gemm", 0, 10, ("late",))]


def test_names_whose_launches_are_mostly_paired_with_others_do_not_match() -> None:
    base = [launch("old", op="mm", op_call=1, shapes="1"), *(launch("old") for _ in range(3))]
    candidate = [launch("new", op="mm", op_call=1, shapes="1")]
    matching = match_kernels(kernels(old=40), kernels(new=10), lambda: (base, candidate))
    assert not any(each.stage == "op" for each in matching.matches)


def test_launches_are_not_fetched_where_names_suffice() -> None:
    def never() -> tuple[list[Launch], list[Launch]]:
        raise AssertionError

    assert match_kernels(kernels(a=1), kernels(a=2), never).matched == (1, 1)
