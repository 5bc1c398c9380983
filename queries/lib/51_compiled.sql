-- What the traces of torch.compile mark.

-- is_generated_kernel(name): whether Inductor generated the kernel: its kinds are pointwise, persistent and looped reductions,
-- foreach, combinations of these, split scans and templates; torch 2.0 wrote only the types of the arguments.
create or replace macro is_generated_kernel(name) as
    case
        when starts_with(name, 'triton_')
            then regexp_matches(name, '^triton_((poi|per|red|for|mix|spl|tem)_|(mm|bmm|addmm|convolution|flex_\w+)(_|$)|_\d)')
        else false
    end;

-- compile_marks: the ranges on the CPU that torch.compile marks. `kind` is compile (Dynamo, AOTAutograd or Inductor at work,
-- or Triton's compiler), lookup (the search of the cache of compiled code), region (a call of a compiled frame) or graph
-- (a call of what the compiler made of one, forward or backward). `region` is frame and compilation, as 0/1. torch marks
-- regions and lookups since 2.1, CompiledFxGraph since 2.6. Ops and ranges of one call lie inside each other.
create or replace view compile_marks as
with _ops as (
    select
        run, source, rank, pid, tid, name, start_ns, end_ns,
        case
            when name = 'TorchDynamo Cache Lookup' then 'lookup'
            when starts_with(name, 'Torch-Compiled Region') then 'region'
            when name in ('CompiledFunction', 'CompiledFunctionBackward') then 'graph'
            when ends_with(name, ' (dynamo_timed)') or name in ('dynamo', 'entire_frame_compile', 'entire_backward_compile')
                then 'compile'
        end as kind
    from ops
),
_ranges as (
    select
        run, source, rank, pid, tid, name, start_ns, end_ns,
        case
            when starts_with(name, '## Call CompiledFxGraph ') then 'graph'
            when ends_with(name, ' (dynamo_timed)') then 'compile'
        end as kind
    from annotations
    where scope = 'cpu'
),
_frames as (
    select run, source, rank, pid, tid, name, start_ns, end_ns, 'compile' as kind
    from python_frames
    where case
        when contains(name, 'torch/_dynamo/convert_frame.py(') then regexp_matches(name, '\): _?compile(_inner)?$')
        when contains(name, 'triton/compiler/compiler.py(') then ends_with(name, '): compile')
        else false
    end
)
select run, source, rank, pid, tid, name, start_ns, end_ns, kind, null as region from _ranges where kind is not null
union all
select run, source, rank, pid, tid, name, start_ns, end_ns, kind, null from _frames
union all
select
    run, source, rank, pid, tid, name, start_ns, end_ns, kind,
    case when kind = 'region' then nullif(regexp_extract(name, '\d+/\d+'), '') end
from _ops
where kind is not null;
comment on view compile_marks is 'one range on the CPU that torch.compile marks: compilation, cache lookup, region or graph';
