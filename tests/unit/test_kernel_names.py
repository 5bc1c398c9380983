"""What names of kernels show: the key that spellings of several profilers share, and the precision of a product."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import duckdb
import pytest

from tests import corpus
from tracelab.store.session import MACROS

NSYS = sorted((corpus.ROOT / "nsys").rglob("*.sqlite"))


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute((MACROS / "35_names.sql").read_text("utf-8"))
        yield con


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("gemm", "gemm"),
        ("gemm(float*, int)", "gemm"),
        ("void blur<3>(float const*)", "blur"),
        ("void blur<(int)3>(const T1 *)", "blur"),
        ("a::b::gemm<float, c::Tile<1, (bool)0> >(c::Params)", "gemm"),
        ("void (anonymous namespace)::softmax<float>(float*)", "softmax"),
        ("void <unnamed>::softmax<float>(T1 *)", "softmax"),
        ("void a::apply<b<c>::d(e &)::[lambda(float) (instance 1)]>(int)", "apply"),
        ("void a::apply<b<c>::d(e&)::{lambda(float)#1}>(int)", "apply"),
        ("void a::Functor<float>::run<2>(int)", "run"),
        ("void apply<&(a::operator()(int)), (x->y)>(T1)", "apply"),
        ("unsigned int reduce(int)", "reduce"),
        ("scale(float*) [2317]", "scale"),
        ("void cut::off<float, and_then_noth", "off"),
        ("_Z4gemmPf", "_Z4gemmPf"),
        ("(", "("),
        ("", ""),
        (None, None),
    ],
)
def test_profilers_that_spell_a_kernel_differently_share_its_key(
    con: duckdb.DuckDBPyConnection, name: str | None, key: str | None
) -> None:
    assert con.execute("select kernel_key(?::varchar)", [name]).fetchone() == (key,)


def test_brackets_nest_as_deep_as_templates_do(con: duckdb.DuckDBPyConnection) -> None:
    name = "void f" + "<a" * 30 + ">" * 30 + "(int)"
    assert con.execute("select kernel_key(?)", [name]).fetchone() == ("f",)


@pytest.mark.traces
@pytest.mark.skipif(not NSYS, reason=str(corpus.needs_traces[1].kwargs["reason"]))
def test_the_key_of_a_demangled_name_is_the_short_name_that_nsys_gives_it(con: duckdb.DuckDBPyConnection) -> None:
    different, names = {}, 0
    for path in NSYS:
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as file:
            tables = {name for (name,) in file.execute("select name from sqlite_master")}
            if "CUPTI_ACTIVITY_KIND_KERNEL" not in tables:
                continue
            rows = file.execute(
                "select distinct demangled.value, short.value from CUPTI_ACTIVITY_KIND_KERNEL as kernel "
                "join StringIds as demangled on demangled.id = kernel.demangledName "
                "join StringIds as short on short.id = kernel.shortName"
            ).fetchall()
        for demangled, short in rows:
            (key,) = con.execute("select kernel_key(?)", [demangled]).fetchone()
            if key != short:
                different[path.stem, demangled] = (key, short)
        names += len(rows)
    assert (different, names > 100) == ({}, True)


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
