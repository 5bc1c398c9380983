-- without_brackets(name): a C++ name without the parts in <>, [] and {}, and without a bracket that is never closed.
-- C++ has no regular grammar, so the innermost brackets go first, as often as names of today nest, and more.
create or replace macro without_brackets(name) as
    regexp_replace(
        list_reduce(
            list_prepend(name, range(32)::varchar[]),
            lambda outer_text, pass: regexp_replace(outer_text, '<[^<>]*>|\[[^\[\]]*\]|\{[^{}]*\}', '', 'g')
        ),
        '<.*', '', 's'
    );

-- kernel_key(name): what every profiler calls a kernel alike: the function's own name, without return type, namespaces,
-- template arguments and parameters. `void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(ReduceOp)` of
-- one profiler, `void at::native::reduce_kernel<(int)512, (int)1, T3>(T3)` of another and `reduce_kernel` of a third are
-- all `reduce_kernel`. It is coarse: kernels that differ in their template arguments only are one key. A name that leaves
-- nothing is its own key. Apply it to distinct names: a million kernels have some hundred.
create or replace macro kernel_key(name) as
    coalesce(
        nullif(
            regexp_extract(
                without_brackets(
                    regexp_replace(
                        replace(replace(name, '->', ''), 'operator()', 'operator'),
                        '\(anonymous( namespace)?\)|<unnamed>|\{anonymous\}', 'anonymous', 'g'
                    )
                ),
                '^(?:[^(]*::|[^(]*\s)?([^(:\s]+)\s*(?:\(.*)?$', 1, 's'
            ),
            ''
        ),
        name
    );

-- is_unaligned_product(name): a matrix product on tensor cores that loads one or two elements at once. CUTLASS names the
-- elements of a load `align1`, cuBLAS's xmma kernels those of A and C `aligna1_alignc1`. A product without tensor cores
-- (`simt`, `ffma`) is no such: it loads single elements for all sizes.
create or replace macro is_unaligned_product(name) as
    regexp_matches(
        name, '(?i)cutlass.*tensorop.*gemm.*align[12](?:\D|$)|xmma_gemm.*_tensor\d+x\d+x\d+.*aligna[12](?:\D|$)'
    );

-- product_precision_by_name(name): the precision that a matrix product or convolution multiplies in, as libraries write it
-- into the names of kernels; NULL where the name does not show it. nvjet kernels begin with the letters of their types
-- (h fp16, t bf16, q fp8). cuDNN's traits `hmma_fp32` add up in fp32 and multiply fp16. CUTLASS names products of fp32
-- on tensor cores, which round to tf32, by their shape alone: `tensorop_s1688gemm_64x64`.
create or replace macro product_precision_by_name(name) as
    case
        when regexp_matches(name, '(?i)fp8|e4m3|e5m2|nvjet_(sm\d+_)?q') then 'fp8'
        when regexp_matches(name, '(?i)i8i8|int8|imma|(^|_)i\d+gemm') then 'int8'
        when regexp_matches(name, '(?i)bf16|bfloat16|nvjet_(sm\d+_)?t') then 'bf16'
        when regexp_matches(name, '(?i)f16|fp16|half|hmma_fp(16|32)|(^|_)h\d*(gemm|cudnn)|nvjet_(sm\d+_)?h') then 'fp16'
        when regexp_matches(name, '(?i)f64|fp64|double|(^|_)d\d*gemm') then 'fp64'
        when regexp_matches(name, '(?i)tf32|(tensorop|ampere)_s\d+(gemm|fprop|dgrad|wgrad|cudnn)') then 'tf32'
        when regexp_matches(name, '(?i)f32|\bfloat\b|sgemm|scudnn') then 'fp32'
    end;

-- is_fp32_product(name): a matrix product or convolution that multiplies fp32 outside the tensor cores. What only prepares
-- one, transforms for it, or multiplies vectors (gemv) is none: tensor cores do not speed it up.
create or replace macro is_fp32_product(name) as
    product_precision_by_name(name) = 'fp32'
    and regexp_matches(name, '(?i)_ffma_|(^|_)simt_s(gemm|\d|[a-z]*(fprop|dgrad|wgrad))|sgemm_|_sgemm<|scudnn|grad\w*_engine<float|convolve\w*<float');

-- is_layout_conversion(name): a kernel of cuDNN or MIOpen that only transposes between the layouts NCHW and NHWC for a
-- convolution beside it.
create or replace macro is_layout_conversion(name) as
    regexp_matches(name, '(?i)nchwToNhwc|nhwcToNchw|^batched_transpose_');
