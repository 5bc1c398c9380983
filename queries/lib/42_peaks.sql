-- What chips and cards can do by their makers' data sheets; dense, a multiply-add counted as two.

-- chip_rates: FLOPs (of int8: operations) a multiprocessor can do in a cycle, by compute capability. Tensor cores add up
-- in fp32 here; cards that do so at half the rate have a `tensor_share` in card_specifications.
create or replace view chip_rates as
with _chips as (
    from (values
        ('3.5', 128, 384, null, null, null, null, null, null, null),
        ('3.7', 128, 384, null, null, null, null, null, null, null),
        ('5.2', 8, 256, null, null, null, null, null, null, null),
        ('6.0', 64, 128, 256, null, null, null, null, null, null),
        ('6.1', 8, 256, 4, null, null, null, null, null, null),
        ('7.0', 64, 128, 256, 1024, null, null, null, null, null),
        ('7.5', 4, 128, 256, 1024, null, null, null, null, 2048),
        ('8.0', 64, 128, 512, 2048, 2048, 1024, 128, null, 4096),
        ('8.6', 4, 256, 256, 1024, 1024, 512, null, null, 2048),
        ('8.9', 4, 256, 256, 1024, 1024, 512, null, 2048, 2048),
        ('9.0', 128, 256, 512, 4096, 4096, 2048, 256, 8192, 8192),
        ('9.4', 128, 256, null, 2048, 2048, 1024, 256, 4096, 4096),  -- CDNA 3: "AMD Instinct MI300X Accelerator", data sheet, 2023
        ('10.0', 128, 256, 512, 8192, 8192, 4096, 128, 16384, 16384),
        ('12.0', 4, 256, 256, 1024, 1024, 512, null, 2048, 2048)
    ) as chips(cc, fp64, fp32, fp16, tensor_fp16, tensor_bf16, tensor_tf32, tensor_fp64, tensor_fp8, tensor_int8)
)
unpivot _chips on fp64, fp32, fp16, tensor_fp16, tensor_bf16, tensor_tf32, tensor_fp64, tensor_fp8, tensor_int8
into name precision value flop_per_cycle;
comment on view chip_rates is 'one precision of one compute capability: FLOPs a multiprocessor can do in a cycle';

-- card_specifications: clocks and memory of cards by name: the whole of it but for NVIDIA, Tesla and GeForce, as P40 is in
-- Quadro P4000, H200 in GH200, and a part of a card (MIG) is named after the whole. `tensor_clock_hz` is the clock that the
-- data sheet's tensor figures are for, those of fp64 excepted.
create or replace view card_specifications as
from (values
    (1, 'K80', '3.7', 13, 0.875e9, 0.875e9, 1.0, 240),
    (2, 'P40', '6.1', 30, 1.531e9, 1.531e9, 1.0, 346),
    (3, 'P100-SXM2(-16GB)?', '6.0', 56, 1.48e9, 1.48e9, 1.0, 732),
    (4, 'P100-PCIE-16GB', '6.0', 56, 1.329e9, 1.329e9, 1.0, 732),
    (5, 'V100S-PCIE-32GB', '7.0', 80, 1.597e9, 1.597e9, 1.0, 1134),
    (6, 'V100-SXM2-(16|32)GB', '7.0', 80, 1.53e9, 1.53e9, 1.0, 900),
    (7, 'V100-PCIE-(16|32)GB', '7.0', 80, 1.38e9, 1.38e9, 1.0, 900),
    (8, 'T4', '7.5', 40, 1.59e9, 1.59e9, 1.0, 320),
    (9, 'Quadro RTX 6000', '7.5', 72, 1.77e9, 1.77e9, 1.0, 672),
    (10, 'RTX 2080 Ti', '7.5', 68, 1.545e9, 1.545e9, 0.5, 616),
    (11, 'A100-SXM4?-80GB', '8.0', 108, 1.41e9, 1.41e9, 1.0, 2039),
    (12, 'A100 80GB PCIe', '8.0', 108, 1.41e9, 1.41e9, 1.0, 1935),
    (13, 'A100-((SXM4?|PCIE)-40GB|PG509-200)', '8.0', 108, 1.41e9, 1.41e9, 1.0, 1555),  -- PG509-200: a board of SXM4, 40 GB
    (14, 'A30', '8.0', 56, 1.44e9, 1.44e9, 1.0, 933),
    (15, 'A40', '8.6', 84, 1.74e9, 1.74e9, 1.0, 696),
    (16, 'A10', '8.6', 72, 1.695e9, 1.695e9, 1.0, 600),
    (17, 'RTX A6000', '8.6', 84, 1.8e9, 1.8e9, 1.0, 768),
    (18, 'RTX 3090', '8.6', 82, 1.695e9, 1.695e9, 0.5, 936),
    (19, 'L40S', '8.9', 142, 2.52e9, 2.49e9, 1.0, 864),
    (20, 'L4', '8.9', 58, 2.04e9, 2.04e9, 1.0, 300),
    (21, 'RTX 4090', '8.9', 128, 2.52e9, 2.52e9, 0.5, 1008),
    (22, 'H200', '9.0', 132, 1.98e9, 1.83e9, 1.0, 4800),
    (23, 'H100 80GB HBM3', '9.0', 132, 1.98e9, 1.83e9, 1.0, 3352),
    (24, 'H100 PCIe', '9.0', 114, 1.755e9, 1.62e9, 1.0, 2039),
    (25, 'RTX 5090', '12.0', 170, 2.407e9, 2.407e9, 0.5, 1792),
    (26, 'AMD Instinct MI300X( VF)?', '9.4', 304, 2.1e9, 2.1e9, 1.0, 5300),
    (27, 'B200', '10.0', 148, 1.98e9, 1.856e9, 1.0, 7700)  -- "NVIDIA HGX B200", data sheet: 180 GB, 2.25 PFLOP/s of bf16
) as cards(place, pattern, cc, sm_count, clock_hz, tensor_clock_hz, tensor_share, bandwidth_gb_per_s);
comment on view card_specifications is 'one model of GPU by its data sheet; the first pattern that is a name counts';

-- ceiling_names: which measurement of `ceilings` limits what. fma_* are loops of multiply-adds outside the tensor cores,
-- gemm_* matrix products (gemm_fp64 uses tensor cores where the chip has them for it, so it comes after fma_fp64);
-- dram_*, l2_* and l1_* are streams over arrays that fit no nearer level, with bytes read and written counted.
-- `tracelab collect ceilings` measures dram_*, l2_* and gemm_*; its others (h2d_pinned, all_reduce_busbw …) limit no kernel.
create or replace view ceiling_names as
from (values
    ('fma_fp64', 'fp64', 1), ('gemm_fp64', 'fp64', 2), ('fma_fp32', 'fp32', 1), ('gemm_fp32', 'fp32', 1),
    ('fma_fp16', 'fp16', 1), ('gemm_fp16', 'tensor_fp16', 1), ('gemm_bf16', 'tensor_bf16', 1),
    ('gemm_tf32', 'tensor_tf32', 1), ('gemm_fp64', 'tensor_fp64', 1), ('gemm_fp8', 'tensor_fp8', 1),
    ('gemm_int8', 'tensor_int8', 1),
    ('dram_copy', 'dram', 1), ('dram_scale', 'dram', 1), ('dram_add', 'dram', 1), ('dram_triad', 'dram', 1),
    ('dram_dot', 'dram', 1), ('dram_read', 'dram', 1), ('dram_write', 'dram', 1),
    ('l2_copy', 'l2', 1), ('l2_triad', 'l2', 1), ('l2_read', 'l2', 1),
    ('l1_copy', 'l1', 1), ('l1_triad', 'l1', 1), ('l1_read', 'l1', 1)
) as names(metric, ceiling, place);
comment on view ceiling_names is 'one measurement, and the precision or memory level that it is a ceiling of';
