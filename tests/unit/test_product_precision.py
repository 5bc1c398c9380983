"""The names that libraries give matrix products and convolutions show the precision that they multiply in."""

from collections.abc import Iterator

import duckdb
import pytest

from tracelab.store.session import MACROS


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute((MACROS / "35_names.sql").read_text("utf-8"))
        yield con


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize32x32x8_ffma_execute_kernel", "fp32"),
        ("sm80_xmma_gemm_cf32cf32_f32f32_cf32_nt_n_tilesize64x64x8_ffma_aligna8_alignc8_execute_kernel", "fp32"),
        ("void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, float const*)", "fp32"),
        ("cutlass_80_simt_sgemm_128x128_8x4_nt_align1", "fp32"),
        ("ampere_sgemm_32x32_sliced1x4_tn", "fp32"),
        ("ampere_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148n_nt_v1", "fp32"),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tensor16x8x8_execute_kernel_cudnn", "tf32"),
        ("void xmma_cudnn::gemm::kernel<xmma_cudnn::Ampere_hmma_tf32_traits<unsigned int, float>>", "tf32"),
        ("cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4", "tf32"),
        ("cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_tn_align8", "bf16"),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", "bf16"),
        ("nvjet_sm90_hsh_256x128_64x4_1x2_h_bz_coopA_NNT", "fp16"),
        ("sm80_xmma_wgrad_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc_tensor16x8x16_cudnn", "fp16"),
        ("void xmma_cudnn::strided_dgrad_indexed::kernel<xmma_cudnn::Ampere_hmma_fp32_traits, int>", "fp16"),
        ("volta_h884gemm_64x128_ldg8_nn", "fp16"),
        ("nvjet_sm90_qqtst_128x128_128x6_2x1_v_bz_TNT", "fp8"),
        ("sm90_xmma_gemm_i8i8_i8i32_f32_tn_n_tilesize64x64x64_tensor16x8x32", "int8"),
        ("volta_dgemm_64x64_nn", "fp64"),
        ("triton_tem_fused_mm_0", None),
        (None, None),
    ],
)
def test_a_name_shows_the_precision_of_its_product(
    con: duckdb.DuckDBPyConnection, name: str | None, precision: str | None
) -> None:
    assert con.execute("select product_precision_by_name(?::varchar)", [name]).fetchone() == (precision,)
