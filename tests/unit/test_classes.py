"""The classifier gives real kernel names the class a reader would."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.build import build_store
from tracelab.errors import StoreError
from tracelab.store import rules as name_rules
from tracelab.store import session

NAMES = [
    ("ncclAllReduceRingLLKernel_sum_f32(ncclColl)", "communication", "all_reduce"),
    ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "communication", "all_reduce"),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication", "all_reduce"),
    ("ncclReduceScatterRingLLKernel_sum_f32(ncclColl)", "communication", "reduce_scatter"),
    ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(args)", "communication", "reduce_scatter"),
    ("ncclKernel_Reduce_RING_LL_Sum_float(ncclWorkElem)", "communication", "reduce"),
    ("ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication", "reduce"),
    ("ncclBroadcastRingLLKernel_copy_i8(ncclColl)", "communication", "broadcast"),
    ("ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication", "broadcast"),
    ("ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWorkElem)", "communication", "all_gather"),
    ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "communication", "send_recv"),
    ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", "communication", "unknown"),
    ("rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)", "communication", "unknown"),
    ("void deep_ep::internode::dispatch<false, 4>(int4*)", "communication", "all_to_all"),
    ("void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(__nv_bfloat16*)", "communication", "all_to_all"),
    ("void deep_ep::internode_ll::combine<true, 7168>(void*)", "communication", "all_to_all"),
    ("void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)", "embedding_index", None),
    ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", "communication", "all_reduce"),
    ("void vllm::cross_device_reduce_2stage<half, 4>(vllm::RankData*)", "communication", "all_reduce"),
    ("void (anonymous namespace)::multimem_all_reduce_kernel<float, 16>(float*)", "communication", "all_reduce"),
    ("nvshmemi_proxy_quiet_entrypoint(nvshmemi_team_t)", "communication", "unknown"),
    ("volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", "winograd", None),
    ("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x64x64", "implicit_gemm", None),
    ("volta_sgemm_128x32_nt", "gemm", None),
    ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN", "gemm", None),
    ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1", "gemm", None),
    ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64>(Params)", "gemm", None),
    ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(Flash_fwd_params)", "attention", None),
    ("fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext", "attention", None),
    ("void at::native::max_pool_forward_nchw<float, float>(int, float const*)", "pooling_forward", None),
    ("void at::native::max_pool_backward_nchw<float, float>(float const*)", "pooling_backward", None),
    ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>(cudnnTensorStruct)", "norm", None),
    ("void at::native::vectorized_layer_norm_kernel<float, float>(int, float)", "norm", None),
    ("void at::native::softmax_warp_forward<float, float, float, 10, true>(float*)", "loss", None),
    ("void at::native::multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>(int)", "optimizer", None),
    ("void split_embedding_codegen_forward_unweighted_kernel<float, float>(int)", "embedding_index", None),
    ("void fbgemm_gpu::permute_2D_lengths_kernel<int>(int)", "embedding_index", None),
    ("void at::native::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>(float*)", "copy", None),
    ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, sum>>(float)", "reduction", None),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)", "elementwise", None),
    ("cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1", "implicit_gemm", None),
    ("turing_h1688cudnn_128x128_ldg8_relu_exp_medium_nhwc_tn_v1", "implicit_gemm", None),
    ("volta_fp16_scudnn_winograd_fp16_128x128_ldg1_ldg4_relu_tile148t_nt_v1", "winograd", None),
    ("void cutlass_cudnn_infer::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_64x128_32x3>", "implicit_gemm", None),
    ("void implicit_convolve_sgemm<float, float, 128, 6, 7, 3, 3, 5, 1, false, true, true>(", "implicit_gemm", None),
    ("cask_cudnn_infer::computeBOffsetsKernel(cask_cudnn_infer::ComputeBOffsetsParams)", "implicit_gemm", None),
    ("igemm_fwd_gtcx3_nhwc_fp16_bx0_ex0_bt256x256x32_wt32x32x8", "implicit_gemm", None),
    ("void ck::kernel_grouped_conv_fwd_multiple_abd_xdl_cshuffle<ck::GridwiseGemm<float>>(", "implicit_gemm", None),
    ("void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int)", "convolution", None),
    ("void explicit_convolve_sgemm<float, int, 1024, 5, 5, 3, 3, 3, 0, false>(int)", "convolution", None),
    ("void fft2d_r2c_32x32<float, false, 5u, true>(float2*, float const*, int)", "convolution", None),
    ("void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (", "convolution", None),
    ("naive_conv_ab_nonpacked_fwd_nchw_float_double_float", "convolution", None),
    ("miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1", "winograd", None),
    ("void causal_conv1d_fwd_kernel<Causal_conv1d_fwd_kernel_traits<128, 4, false>>(Params)", "convolution", None),
    ("void regular_fft<4096u, EPT<16u>, 256u, 2u, (padding_t)1>(kernel_arguments_t<unsigned int>)", "fft", None),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x128x64", "attention", None),
    ("void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<float>>>(", "attention", None),
    ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::Params)", "attention", None),
    ("bwd_kernel_dk_dv", "attention", None),
    ("void flashinfer::BatchPrefillWithRaggedKVCacheKernel<float>(Params)", "attention", None),
    ("void ck_tile::kentry<256, 2, ck_tile::FmhaFwdKernel<float>>(Kargs)", "attention", None),
    ("fused_moe_kernel", "gemm", None),
    ("void marlin::Marlin<__nv_bfloat16, 1125899906842624l, 256, 1, 8, 8, false, 4, 8, false>(int4", "gemm", None),
    ("void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float, float, true, true, false>(", "gemm", None),
    ("void rocblas_gemvt_sn_kernel<false, 256, 4, int, float const*, float, float>(int)", "gemm", None),
    ("void at::native::(anonymous namespace)::adaptive_average_gradinput<float>(float*)", "pooling_backward", None),
    ("void cudnn::pooling_fw_4d_kernel<float, float, cudnn::maxpooling_func<float>>(float)", "pooling_forward", None),
    ("void cudnn::pooling_bw_kernel_max<float, float, cudnn::maxpooling_func<float>>(float)", "pooling_backward", None),
    ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::WelfordOps<", "reduction", None),
    ("void cub::DeviceReduceSingleTileKernel<cub::DeviceReducePolicy<long, int, cub::Sum>", "reduction", None),
    ("void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, int, int>", "sort", None),
    ("void cub::DeviceRadixSortHistogramKernel<cub::DeviceRadixSortPolicy<long, float, int>", "sort", None),
    ("void at_cuda_detail::cub::DeviceRadixSortSingleTileKernel<at_cuda_detail::cub::DeviceRadixSort", "sort", None),
    ("void at::native::bitonicSortKVInPlace<2, -1, 16, 16, float, long, LTOp<float, true>>(float*)", "sort", None),
    ("void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(float*)", "sort", None),
    ("_topk_forward", "sort", None),
    ("void cub::DeviceCompactInitKernel<cub::ReduceByKeyScanTileState<int, int, true>, int*>(", "sort", None),
    ("void cub::DeviceReduceByKeyKernel<cub::DispatchReduceByKey<long*, long*, int*>>(long*)", "sort", None),
    ("void cub::DeviceScanKernel<cub::DeviceScanPolicy<int>::Policy600, int*, int*>(int*, int*)", "reduction", None),
    ("void cub::CUB_200300_89_NS::DeviceScanInitKernel<cub::CUB_200300_89_NS::ScanTileState<int>>(", "reduction", None),
    ("void cub::CUB_200300_89_NS::DeviceReduceKernel<cub::CUB_200300_89_NS::DevicePolicy<int>", "reduction", None),
    ("void at_cuda_detail::cub::detail::scan::DeviceScanKernel<at_cuda_detail::cub::detail", "reduction", None),
    ("void at::native::(anonymous namespace)::compute_num_of_partial_segments<long>(", "embedding_index", None),
    ("void at::native::lpnorm_cleanup<float, (at::native::NormType)1, float, true, float>(", "optimizer", None),
    ("void cudnn::fusion::compute_dot_do_o_specialized<true, 64>(void const*, void const*", "attention", None),
    ("void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long)", "embedding_index", None),
    ("void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long>(", "embedding_index", None),
    ("void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<(", "embedding_index", None),
    ("void at::native::(anonymous namespace)::searchsorted_cuda_kernel<float, long>(long*)", "embedding_index", None),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::masked_fill_kernel(", "elementwise", None),
    ("tensor_fill_kernel", "fill", None),
    ("void mine::kernel<std::unique_ptr<float>>(float*)", None, None),
    ("void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::ParallelForAgent<F>>(F)", "elementwise", None),
    ("void kOptimizer32bit2State<float, 0>(float*, float*)", "optimizer", None),
    ("void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16, c10::Float8_e4m3fn>(float*)", "quantization", None),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<", "fill", None),
    ("void cudnn::ops::setTensor5d_kernel<float, float, (int)8, (int)8, (int)8>(cudnnTensorStruct)", "fill", None),
    ("SubTensorOpWithScalar1d", "fill", None),
    ("triton_poi_fused_zeros_2", "fill", None),
    ("triton_poi_fused_full_like_new_zeros_0", "fill", None),
    ("triton_poi_fused_clone_fill_1", "copy", None),
    ("void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(", "copy", None),
    ("triton_poi_fused_add_relu_0", "elementwise", None),
    ("triton_poi_fused_bmm_mul_7", "elementwise", None),
    ("triton_poi_fused__to_copy_1", "copy", None),
    ("triton_poi_fused_max_pool2d_with_indices_backward_3", "pooling_backward", None),
    ("triton_per_fused_native_layer_norm_2", "norm", None),
    ("triton_red_fused__softmax_5", "softmax", None),
    ("triton_per_fused__log_softmax_nll_loss_forward_2", "loss", None),
    ("triton_red_fused_mean_mul_9", "reduction", None),
    ("triton_for_fused_0", "optimizer", None),
    ("triton_tem_fused_addmm_4", "gemm", None),
    ("triton_flex_attention", "attention", None),
    ("triton__0d1d2d3d", "fused", None),
    ("void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float, float, float", "softmax", None),
    ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 3, false, false>(float*)", "softmax", None),
    ("void cunn_SoftMaxForward<4, float, float, float, at::native::LogSoftMaxForwardEpilogue>(", "loss", None),
    ("void clover::par_ranged2d_kernel<flux_calc_kernel(int, double)::[lambda(int)]>(clover::Range2d)", None, None),
    ("my_lambda_property_europe", None, None),
    ("hcom_allReduce__428_0_1", "communication", "all_reduce"),
    ("hcom_allGather__503_1_1", "communication", "all_gather"),
    ("hcom_reduceScatter__503_2_1", "communication", "reduce_scatter"),
    ("hcom_broadcast__428_3_1", "communication", "broadcast"),
    ("hcom_alltoallv__012_4_1", "communication", "all_to_all"),
    ("hcom_reduce__012_4_1", "communication", "reduce"),
    ("hcom_batchSendRecv__128_4_1", "communication", "send_recv"),
    ("hcom_receive__128_4_1", "communication", "send_recv"),
    ("hcom_scatter__128_4_1", "communication", "other"),
    ("allreduceAicpuKernel", "communication", "all_reduce"),
    ("oneccl_allreduce_pcie<sycl::_V1::ext::oneapi::bfloat16, Rt64_128_PCIE>", "communication", "all_reduce"),
    ("oneccl_alltoall_pcie<float, Rt64_PCIE>", "communication", "all_to_all"),
    ("oneccl_allgatherv_small<float, 8>", "communication", "all_gather"),
    ("oneccl_reduce_scatter_large<float>", "communication", "reduce_scatter"),
    ("oneccl_invoke_barrier", "communication", "other"),
    ("oneccl_kernel_memcpy_bytes", "communication", "unknown"),
    ("void barrier_on_stream_kernel_threadgroup<(threadgroup_t)1>(int, int)", "communication", "other"),
    ("void fcollect_on_stream_kernel<float>(int, float*, float const*, unsigned long)", "communication", "all_gather"),
    ("void broadcast_on_stream_kernel<float>(int, float*, float const*, int)", "communication", "broadcast"),
    ("void alltoall_on_stream_kernel<float>(int, float*, float const*, unsigned long)", "communication", "all_to_all"),
    ("void rdxn_on_stream_kernel<float, (rdxn_ops_t)4>(int, float*)", "communication", "all_reduce"),
    ("void reducescatter_on_stream_kernel<float, (rdxn_ops_t)4>(int)", "communication", "reduce_scatter"),
    ("void mscclpp::collective::allreducePacket<(mscclpp::ReduceOp)0, float>(float*)", "communication", "all_reduce"),
    ("mscclpp::collective::allgatherFullmesh2(void*, mscclpp::MemoryChannel*)", "communication", "all_gather"),
    ("void mscclpp::collective::alltoallvKernel(mscclpp::MemoryChannel*)", "communication", "all_to_all"),
    ("void mscclpp::collective::broadcast6<false>(void*)", "communication", "broadcast"),
    ("void mscclpp::executionKernel<float, mscclpp::LL16Packet>(int, float*)", "communication", "unknown"),
    ("void userbuffers_fp16_sum_inplace_gpu_rw<8>(int, int, int)", "communication", "all_reduce"),
    ("void userbuffers_fp16_sum_inplace_gpu_mc_rs_oop<8>(int, int, int)", "communication", "reduce_scatter"),
    ("void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop_fp8<8, __nv_fp8_e4m3>(int)", "communication", "reduce_scatter"),
    ("void userbuffers_fp16_sum_inplace_gpu_rw_ag<8>(int, int, int)", "communication", "all_gather"),
    ("kuserbuffers_pushsendrecv(int, int, int*, int*, int4*, int4*, int)", "communication", "send_recv"),
    ("void tensorrt_llm::kernels::moe_comm::moeA2ADispatchKernel<8, false>(int const*)", "communication", "all_to_all"),
    ("void tensorrt_llm::kernels::moe_comm::moeA2APrepareCombineKernel<float>(float*)", "communication", "all_to_all"),
    ("EpDispatchIntraNodeKernel_bf16", "communication", "all_to_all"),
    ("void hybrid_ep::dispatch_kernel<hybrid_ep::INTRA_NODE_G2S_GROUP>(Params)", "communication", "all_to_all"),
    ("void deep_ep::intranode::notify_dispatch<8>(int const*)", "communication", "all_to_all"),
    ("void aiter::reduce_scatter_cross_device_store<__hip_bfloat16, 8>(RankData*)", "communication", "reduce_scatter"),
    ("void block_all_reduce_sum_f32_f32_kernel<256>(float*, float*, int)", "reduction", None),
    ("small_reduce_kernel", "reduction", None),
    ("void small_gather<float>(float*)", "embedding_index", None),
    ("aclnnMatmulAllReduce_MatmulAllReduce", "gemm", None),
    ("triton_poi_fused_all_gather_into_tensor_wait_tensor_0", "elementwise", None),
    ("triton_poi_fused_all_gather_copy", "elementwise", None),
    ("triton_red_fused_all_reduce_add_3", "reduction", None),
    ("moe_all_to_all_permute_index", "embedding_index", None),
    ("void reduce_scatter_offsets_kernel<int>(int*)", "embedding_index", None),
    ("_all_gather_copy_out_kernel", "copy", None),
    ("void fsdp::reduce_scatter_copy_in<float>(float*)", "copy", None),
    ("permute_for_all_to_all_kernel", "copy", None),
    ("all2all_unpack", "copy", None),
    ("ncclAllGatherRingLLKernel_copy_i8(ncclColl)", "communication", "all_gather"),
    ("void all_to_all_pull_kernel<float>(PeerPtrs<float>, float*)", "communication", "all_to_all"),
    ("all_to_all_transpose_kernel(PtrArray8, c10::complex<float>*)", "communication", "all_to_all"),
    ("void dlslime::intranode_alltoall_kernel<8>(void const*, void**)", "communication", "all_to_all"),
    ("allgather_bf16_kernel(unsigned long const*)", "communication", "all_gather"),
    ("void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<128, 16>>(SSMParamsBase)", "state_space", None),
    ("_chunk_scan_fwd_kernel", "state_space", None),
    ("_chunk_state_fwd_kernel", "state_space", None),
    ("_chunk_cumsum_fwd_kernel", "state_space", None),
    ("_state_passing_fwd_kernel", "state_space", None),
    ("_bmm_chunk_fwd_kernel", "state_space", None),
    ("_selective_scan_update_kernel", "state_space", None),
    ("chunk_gated_delta_rule_fwd_kernel_h_blockdim64", "state_space", None),
    ("fused_recurrent_gated_delta_rule_fwd_kernel", "state_space", None),
    ("fused_sigmoid_gating_delta_rule_update_kernel", "state_space", None),
    ("chunk_scaled_dot_kkt_fwd_kernel", "state_space", None),
    ("chunk_local_cumsum_scalar_kernel", "state_space", None),
    ("recompute_w_u_fwd_kernel", "state_space", None),
    ("merge_16x16_to_64x64_inverse_kernel", "state_space", None),
    ("chunk_fwd_kernel_o", "state_space", None),
    ("_causal_conv1d_update_kernel", "convolution", None),
    ("void chunk_cat_cuda_kernel<float, __nv_bfloat16>(float**)", "copy", None),
    ("sage_fwd", "attention", None),
    ("_fwd_grouped_kernel_stage1", "attention", None),
    ("_fwd_kernel_stage2", "attention", None),
    ("void (anonymous namespace)::store_kvcache<2048l, 4, false, long>(StoreKVCacheParams)", "attention", None),
    ("create_flashinfer_kv_indices_triton", "attention", None),
    ("concat_and_cache_mla_kernel", "attention", None),
    ("message_fwd", None, None),
    ("sage_gather_features", "embedding_index", None),
    ("__amd_rocclr_fillBufferAligned", "fill", None),
    ("__amd_rocclr_copyBuffer", "copy", None),
    ("SubTensorOpWithCastTensor1d", "copy", None),
    ("Im2d2Col_v2", "convolution", None),
    ("Im3d2Col", "convolution", None),
    ("void at::native::(anonymous namespace)::ComputeFusedParamsCUDAKernel<float>(long)", "norm", None),
    ("l2norm_fwd_kernel", "norm", None),
    ("fused__autocast_to__autocast_to_7342083413241", "fused", None),
    ("CudaCodeGen::kernel2(CudaCodeGen::Tensor<float, (int)5>)", "fused", None),
    ("nvfuser_none_f0_c0_r0_g0", "fused", None),
    ("void ck_moe_stage1_kernel<256>(float*)", "gemm", None),
    ("fmoe_bf16_pertokenFp8_g1u1_vs_silu_1tg_32x256", "gemm", None),
    ("_ZN5aiter50fmoe_bf16_blockscaleFp8_g1u1_vs_silu_1tg_ps_32x256E", "gemm", None),
    ("void vllm::moe::moe_align_block_size_kernel<int>(int*)", "embedding_index", None),
    ("resolve_future_token_ids_kernel", "embedding_index", None),
    ("at::cuda::(anonymous namespace)::spin_kernel(long)", "spin", None),
    ("trans_TransData_16_MemSet", "fill", None),
    ("aclnnMm_MatMulCommon_MemSet", "fill", None),
    ("trans_TransData_16", "copy", None),
    ("aclnnReduceSum_CastAiCore_Cast", "copy", None),
    ("aclnnMm_MatMulCommon_MatMulV2", "gemm", None),
    ("aclnnAddmm_AddAiCore_Add", "elementwise", None),
    ("Conv2DBackpropFilter6", "convolution", None),
    ("MaxPoolGradWithArgmaxV14", "pooling_backward", None),
    ("aclnnNLLLoss_NLLLossAiCore_NLLLoss", "loss", None),
    ("nvshmemi_proxy_rma_entrypoint_blocking(nvshmemi_team_t)", "communication", "unknown"),
]  # fmt: skip


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the macro and the view of the shipped rules alone."""
    with duckdb.connect() as con:
        con.execute(name_rules.render_rules(name_rules.load_rules(tmp_path_factory.mktemp("store"))))
        yield con


def test_classes_of_real_names(shipped: duckdb.DuckDBPyConnection) -> None:
    rows = shipped.execute(
        """
        select name, class, collective
        from (select unnest(?::varchar[]) as name, kernel_rule(name) as rule) left join kernel_rules using (rule)
        """,
        [[name for name, *_ in NAMES]],
    ).fetchall()
    found = {name: kind for name, *kind in rows}
    wrong = {name: found[name] for name, *expected in NAMES if found[name] != expected}
    assert wrong == {}


def test_a_sequence_of_rules_decides_like_its_rules_one_by_one(tmp_path: Path) -> None:
    """The shipped rules of a class that follow each other share one test; patterns of a user may not fit together."""
    own = "pattern,class,collective\n" + "".join(f"(?P<n>{letter}),mine,\n" for letter in "xyzv") + "\\Qw,mine,\n"
    (tmp_path / "classes.csv").write_text(own)
    names = [name for name, *_ in NAMES] + ["quux", "w"]
    rules = name_rules.load_rules(tmp_path)
    with duckdb.connect() as con:
        con.execute(name_rules.render_rules(rules))
        con.execute("create table names as select unnest(?) as name", [names])
        decided = con.execute("select kernel_rule(name) from names").fetchall()
        matches = [
            con.execute("select regexp_matches(name, ?) from names", [rule.pattern]).fetchall() for rule in rules
        ]
    first = [
        next((number for number, row in enumerate(rows, 1) if row[0]), None) for rows in zip(*matches, strict=True)
    ]
    assert [number for (number,) in decided] == first
    assert set(range(1, 6)) < set(first)


def test_the_users_own_rules_come_first(tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", {"kernels": [{"name": "volta_sgemm"}, {"name": "mine"}, {"name": "what"}]})
    (store / "classes.csv").write_text("pattern,class,collective\n^mine$,communication,all_gather\nsgemm,hot,\n")
    with session.connect(store, referenced="kernel_classes") as con:
        found = con.execute("select name, class, collective, rule from kernel_classes order by name").fetchall()
    assert found == [
        ("mine", "communication", "all_gather", "^mine$"),
        ("volta_sgemm", "hot", None, "sgemm"),
        ("what", "unclassified", None, None),
    ]


def test_rules_that_are_no_utf_8_are_refused_with_the_byte(tmp_path: Path) -> None:
    (tmp_path / "classes.csv").write_bytes("pattern,class\nnüx,gemm\n".encode("latin-1"))
    with pytest.raises(StoreError, match=r"classes\.csv: not valid UTF-8 at byte 15"):
        name_rules.load_rules(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("class\ngemm\n", "classes.csv:1: the columns must be pattern,class"),
        ("pattern,class\na,b\n(,gemm\n", "classes.csv:3: '\\(' is not a valid regular expression"),
        ("pattern,class,collective\na,communication,gossip\n", "classes.csv:2: 'gossip' is not a collective"),
        ("pattern,class\na,\n", "classes.csv:2: a rule needs a pattern and a class"),
    ],
)
def test_a_wrong_rule_names_its_line(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "classes.csv").write_text(text)
    with pytest.raises(StoreError, match=said):
        name_rules.load_rules(tmp_path)
