-- exported_rows: every event that has a place on a track, in the time and of the ranks that are asked for.
create or replace temp view exported_rows as
with _all as (
    from exported_kernels
    union all by name from exported_memcpys
    union all by name from exported_memsets
    union all by name from exported_graphs
    union all by name from exported_syncs
    union all by name from exported_calls
    union all by name from exported_ops
    union all by name from exported_frames
    union all by name from exported_ranges
    union all by name from exported_steps
    union all by name from exported_others
    union all by name from exported_path
)
select a.*, e.shift_ns
from _all as a
join exported as e using (run, source)
where shown(a.start_ns, a.end_ns, e.from_ns, e.to_ns) and has_valid_interval(a.start_ns, a.start_ns)
    and (e.ranks is null or list_contains(e.ranks, a.rank));

-- exported_tracks: the tracks of the events. A row is one track.
create or replace temp view exported_tracks as
select distinct run, rank, place, pid, tid, device, context, stream, track
from exported_rows;

-- event_texts(of_run, of_rank): the events of one rank in the order in which they nest: track by track, by start, the longer
-- first. `text` is the event's JSON; `placed_tracks` maps a track to its process and thread in the export, `head`.
create or replace temp macro event_texts(of_run, of_rank) as table
select
    t.number, t.flat,
    r.start_ns,
    case when r.dur_ns >= 0 then r.end_ns end as end_ns,
    t.head || concat_ws(
        ',',
        '"ph":"' || case when r.dur_ns >= 0 then 'X' when r.phase in ('B', 'E') then r.phase else 'i","s":"t' end || '"',
        arg_text('cat', r.category),
        arg_text('name', r.name),
        '"ts":' || as_us(r.start_ns + r.shift_ns),
        case when r.dur_ns >= 0 then '"dur":' || as_us(r.dur_ns) end,
        case
            when f.flow is null then null
            when r.place = 'gpu' then '"bind_id":"' || f.flow || '","flow_in":true'
            when r.start_ns = f.start_ns and r.end_ns = f.end_ns and r.tid is not distinct from f.tid
            then '"bind_id":"' || f.flow || '","flow_out":true'
        end,
        '"args":{' || nullif(concat_ws(',', r.members, case when r.dur_ns < 0 then arg('dur_ns', r.dur_ns) end), '') || '}'
    ) || '},' || chr(10) as text
from exported_rows as r
join placed_tracks as t
    on r.run = t.run and r.rank = t.rank and r.place = t.place
    and r.pid is not distinct from t.pid and r.tid is not distinct from t.tid
    and r.device is not distinct from t.device and r.context is not distinct from t.context
    and r.stream is not distinct from t.stream and r.track is not distinct from t.track
left join flows as f
    on r.run = f.run and r.source = f.source and r.pid is not distinct from f.pid and r.correlation = f.correlation
where r.run = of_run and r.rank = of_rank
order by t.number, r.start_ns, end_ns desc nulls last, r.place_in_file, text;
