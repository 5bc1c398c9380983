-- What kinds of kernels take the time: matrix products, convolutions, attention, normalization, communication …
-- A row is one run, rank, device and class. The class is what the first rule of the classifier (queries/classes.csv, and
-- before it <store>/classes.csv) assigns to the name; communication also is what the profiler recorded as such. Kernels that
-- no rule matches are the class `unclassified`, and every row has their share. A fused kernel counts for the part
-- that its name begins with. Durations add up over kernels that run at once; `busy_ns` does not, and `alone_ns` is the time
-- that only kernels of this class explain, beside those that a scope leaves out, too.
-- /// query
-- title = "Kernel time by class"
-- needs = ["kernels"]
-- show = ["run", "rank", "device", "class", "kernels", "dur_ns", "of_kernel_sum_ratio", "of_window_ratio"]
-- chart = { kind = "bars", x = "class", y = ["dur_ns", "alone_ns"], by = "run" }
-- [params]
-- common = ["run", "rank", "device"]
-- [columns]
-- common = ["run", "rank", "device"]
-- class = "Class by the classifier; unclassified where no rule matches the name."
-- kernels = "common"
-- names = "Different names among them."
-- dur_ns = "Durations of the executions, added up."
-- kernel_sum_ns = "common"
-- of_kernel_sum_ratio = "common"
-- busy_ns = "common"
-- alone_ns = "The part of busy_ns in which no kernel of another class ran, in the scope or not."
-- window_ns = "common"
-- of_window_ratio = "common"
-- unclassified_ns = "Durations of the device's kernels whose name no rule matches, added up."
-- unclassified_ratio = "common"
-- longest_kernel = "Name of its kernels with the longest durations, added up."
-- longest_kernel_ns = "Durations of the executions of longest_kernel, added up."
-- unaligned_ns = "Durations of matrix products on tensor cores that load one or two elements at once (align1, align2), added up."
-- fp32_product_ns = "Durations of the device's matrix products and convolutions in fp32 outside the tensor cores, added up: on the row of the class with most of them, elsewhere 0."
-- tf32_speedup_factor = "Peak of TF32 over that of fp32 by the data sheet of the GPU; NULL where it is unknown."
-- layout_ns = "Durations of kernels that only convert between the layouts NCHW and NHWC, added up; they are convolutions by class."
-- layout_kernels = "Executions of these kernels."
-- [report]
-- section = "kernels"
-- order = 1
-- row = "GPU[s]"
-- row_key = "concat_ws(' ', rank, device)"
-- ok_text = "Nearly all of the kernel time is communication."
-- unknown = "Which class takes the most time is not known: no kernel that computes has a duration above 0."
-- [[report.findings]]
-- when = "unclassified_ns > 0.1 * nullif(kernel_sum_ns, 0) and class = 'unclassified'"
-- by = "unclassified_ns"
-- text = "[{where}: ]no rule matches the names of kernels that take {unclassified_ns of kernel_sum_ns} of the kernel time."
-- advice = "Add rules to `classes.csv` in the store; they are read first."
-- [[report.findings]]
-- when = "class = 'communication' and dur_ns > 0.3 * nullif(kernel_sum_ns, 0)"
-- by = "dur_ns"
-- text = "[{where}: ]communication takes {dur_ns of kernel_sum_ns} of the kernel time, the waiting for other ranks included."
-- advice = "See Communication for how much of it is exposed."
-- [[report.findings]]
-- when = "class not in ('communication', 'unclassified') and nullif(dur_ns, 0) > 0"
-- by = "dur_ns"
-- text = "[{where}: ]of what computes, the class {class} takes the most time, {dur_ns of kernel_sum_ns} of the device's kernel time."
-- advice = "The kernels that take the most time are listed below: begin with those."
-- [[report.findings]]
-- when = "class = 'softmax' and dur_ns > 0.05 * nullif(kernel_sum_ns, 0)"
-- by = "dur_ns"
-- cost = { ns = "dur_ns", rows = "class = 'softmax'", adds = true, topics = ["kernels"], detail = 1 }
-- what_if = { change = "scale", class = "softmax", factor = 0, without = "With softmax that takes no time" }
-- next = "op_kernels"
-- text = "[{where}: ]softmax takes {dur_ns of kernel_sum_ns} of the kernel time, in kernels of its own ({longest_kernel})."
-- every = "{where}: softmax takes {dur_ns of kernel_sum_ns} of the kernel time, in kernels of its own ({longest_kernel})."
-- advice = "In attention, use a fused kernel that never writes the scores, which saves a part of the matrix products, too: `scaled_dot_product_attention` (in Transformers `attn_implementation=\"sdpa\"`) or flash attention."
-- [[report.findings]]
-- when = "unaligned_ns > 0.05 * nullif(kernel_sum_ns, 0)"
-- by = "unaligned_ns"
-- cost = { ns = "unaligned_ns // 2", rows = "unaligned_ns > 0", adds = true, topics = ["kernels"], detail = 1 }
-- what_if = { change = "scale", kernel = '(?i)cutlass.*tensorop.*gemm.*align[12](?:\D|$)|xmma_gemm.*_tensor\d+x\d+x\d+.*aligna[12](?:\D|$)', factor = 0, without = "With these products that take no time" }
-- next = "op_kernels"
-- text = "[{where}: ]matrix products on tensor cores that load one or two elements at once, because a size is no multiple of 16 bytes, take {unaligned_ns of kernel_sum_ns} of the kernel time."
-- every = "{where}: matrix products on tensor cores that load one or two elements at once, because a size is no multiple of 16 bytes, take {unaligned_ns of kernel_sum_ns} of the kernel time."
-- advice = "Pad the sizes, such as heads, sequence and vocabulary, to multiples of 8 elements in bf16 and fp16, of 4 in TF32. An aligned kernel takes less than half as long, so half of the time is the cost here."
-- [[report.findings]]
-- when = "tf32_speedup_factor > 1 and fp32_product_ns > 0.05 * nullif(kernel_sum_ns, 0)"
-- by = "fp32_product_ns"
-- cost = { ns = "floor(fp32_product_ns * (1 - 1 / tf32_speedup_factor))::bigint", rows = "tf32_speedup_factor > 1 and fp32_product_ns > 0", adds = true, bound = true, topics = ["kernels"], detail = 1 }
-- what_if = { change = "scale", kernel = '(?i)_ffma_|(^|_)simt_s(gemm|\d|[a-z]*(fprop|dgrad|wgrad))|sgemm_|_sgemm<|scudnn|grad\w*_engine<float|convolve\w*<float', factor = 0, without = "With these kernels that take no time" }
-- next = "kernel_summary"
-- text = "[{where}: ]matrix products and convolutions in fp32, outside the tensor cores, take {fp32_product_ns of kernel_sum_ns} of the kernel time; in TF32 this GPU computes up to {tf32_speedup_factor} times as fast."
-- every = "{where}: matrix products and convolutions in fp32, outside the tensor cores, take {fp32_product_ns of kernel_sum_ns} of the kernel time; in TF32 these GPUs compute up to {tf32_speedup_factor} times as fast."
-- advice = "Where the accuracy allows, compute in TF32 (`torch.set_float32_matmul_precision(\"high\")` and `torch.backends.cudnn.allow_tf32 = True`) or in bf16 (`torch.autocast(\"cuda\", torch.bfloat16)`). The cost is an upper bound by the peaks of the data sheet: what memory bounds gains less."
-- [[report.findings]]
-- when = "layout_ns > 0.05 * nullif(kernel_sum_ns, 0)"
-- by = "layout_ns"
-- cost = { ns = "layout_ns", rows = "layout_ns > 0", adds = true, topics = ["kernels"], detail = 1 }
-- what_if = { change = "scale", kernel = '(?i)nchwToNhwc|nhwcToNchw|^batched_transpose_', factor = 0, without = "With these kernels that take no time" }
-- text = "[{where}: ]{layout_kernels} kernels that only convert between the layouts NCHW and NHWC for convolutions take {layout_ns of kernel_sum_ns} of the kernel time."
-- every = "{where}: kernels that only convert between the layouts NCHW and NHWC for convolutions take {layout_ns of kernel_sum_ns} of the kernel time."
-- advice = "Keep the model and its input in NHWC, which convolutions on tensor cores read: `to(memory_format=torch.channels_last)` of both, in 3-D `torch.channels_last_3d`."
-- [[report.findings]]
-- when = "class not in ('communication', 'softmax') and unaligned_ns = 0 and longest_kernel_ns > 0.25 * nullif(window_ns, 0)"
-- by = "longest_kernel_ns"
-- cost = { ns = "longest_kernel_ns", rows = "class not in ('communication', 'softmax') and unaligned_ns = 0", topics = ["kernels"], detail = 1, ranked = false }
-- next = "kernel_summary"
-- text = "[{where}: ]one kernel, {longest_kernel}, computes for {longest_kernel_ns of window_ns} of the window."
-- advice = "Whether it can be faster, its place under the roofline shows: profile it by ncu."
-- [[report.findings]]
-- when = "class in ('elementwise', 'copy') and layout_ns = 0 and dur_ns > 0.2 * nullif(window_ns, 0)"
-- by = "dur_ns"
-- cost = { ns = "dur_ns", rows = "class in ('elementwise', 'copy') and layout_ns = 0", adds = ["class"], bound = true, topics = ["kernels"], detail = 1, ranked = false }
-- next = "op_kernels"
-- text = "[{where}: ]{kernels} kernels of class {class} take {dur_ns of kernel_sum_ns} of the kernel time."
-- every = "{where}: kernels of class {class} take {dur_ns of kernel_sum_ns} of the kernel time."
-- advice = "Each reads from memory what another kernel wrote. What fusing them saves is not recorded: a trace does not show which of them work on the same data. Record the run with `torch.compile`, and compare the two."
-- ///
with activity as not materialized (  -- each use reads only its own columns
    select run, source, rank, device, start_ns, end_ns
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation
    from kernels
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
names as materialized (
    select name, name_id from classify('executions')
),
kinds as (  -- without the names: each row would have a copy of its own
    select run, source, rank, device, name_id, start_ns, end_ns, class as part from with_named_class('executions', 'names')
),
others as materialized (
    select run, source, rank, device, class as part, start_ns, end_ns
    from out_of_scope_classes
    where matches(run, $run) and matches(rank, $rank) and matches(device, $device)
),
by_id as (
    select
        run, rank, device, part, name_id,
        count(*) as kernels,
        coalesce(sum(end_ns - start_ns) filter (has_valid_interval(start_ns, end_ns)), 0) as dur_ns
    from kinds
    group by run, rank, device, part, name_id
),
by_name as (
    select i.*, n.name from by_id as i left join names as n on i.name_id = n.name_id
),
sums as (
    select
        run, rank, device, part,
        sum(kernels)::bigint as kernels,
        count(name_id) as names,
        sum(dur_ns) as dur_ns,
        arg_max(name, (dur_ns, name)) as longest_kernel,
        max(dur_ns) as longest_kernel_ns,
        coalesce(sum(dur_ns) filter (is_unaligned_product(name)), 0) as unaligned_ns,
        coalesce(sum(dur_ns) filter (part <> 'communication' and is_fp32_product(name)), 0) as own_fp32_product_ns,
        coalesce(sum(dur_ns) filter (is_layout_conversion(name)), 0) as layout_ns,
        coalesce(sum(kernels) filter (is_layout_conversion(name)), 0)::bigint as layout_kernels
    from by_name
    group by run, rank, device, part
),
fp32_places as (
    select run, rank, device from sums where own_fp32_product_ns > 0
),
cards as materialized (
    from specified_cards('fp32_places')
),
tf32_speedups as (
    select
        run, rank, device,
        max(per_s) filter (ceiling = 'tensor_tf32') / max(per_s) filter (ceiling = 'fp32') as factor
    from specified_ceilings('cards')
    group by run, rank, device
),
shares as (
    select
        *,
        sum(dur_ns) over device_rows as kernel_sum_ns,
        coalesce(sum(dur_ns) filter (part = 'unclassified') over device_rows, 0) as unclassified_ns,
        case
            when row_number() over (device_rows order by own_fp32_product_ns desc, part) = 1
            then sum(own_fp32_product_ns) over device_rows
            else 0
        end as fp32_product_ns
    from sums
    window device_rows as (partition by run, rank, device)
)
select
    s.run, s.rank, s.device,
    s.part as class,
    s.kernels, s.names,
    as_bigint(s.dur_ns) as dur_ns,
    as_bigint(s.kernel_sum_ns) as kernel_sum_ns,
    s.dur_ns / nullif(s.kernel_sum_ns, 0) as of_kernel_sum_ratio,
    zero_if_missing(a.run, a.busy_ns) as busy_ns,
    zero_if_missing(a.run, a.alone_ns) as alone_ns,
    zero_if_missing(w.run, w.window_ns) as window_ns,
    zero_if_missing(a.run, a.busy_ns) / nullif(w.window_ns, 0) as of_window_ratio,
    as_bigint(s.unclassified_ns) as unclassified_ns,
    s.unclassified_ns / nullif(s.kernel_sum_ns, 0) as unclassified_ratio,
    s.longest_kernel,
    as_bigint(s.longest_kernel_ns) as longest_kernel_ns,
    as_bigint(s.unaligned_ns) as unaligned_ns,
    as_bigint(s.fp32_product_ns) as fp32_product_ns,
    t.factor as tf32_speedup_factor,
    as_bigint(s.layout_ns) as layout_ns,
    s.layout_kernels
from shares as s
left join scope_solo_time('kinds', 'others') as a
    on s.run = a.run and s.rank = a.rank and s.device is not distinct from a.device and s.part = a.part
left join scope_windows('activity') as w on s.run = w.run and s.rank = w.rank and s.device is not distinct from w.device
left join tf32_speedups as t on s.run = t.run and s.rank = t.rank and s.device is not distinct from t.device
order by s.run, s.rank, s.device, s.dur_ns desc, class
