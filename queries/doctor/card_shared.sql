-- Ranks that ran on the same physical card.
-- A row is one run and card on which several ranks had activity; `rank` is the lowest. Shares of a rank's window are
-- not shares of the card's time, because the ranks take turns on it or run at once.
-- /// check
-- title = "Two ranks on one card"
-- severity = "warning"
-- how_to_fix = "Assign each rank its own card (CUDA_VISIBLE_DEVICES, or set_device with the local rank), unless they share it on purpose."
-- ///
with used as (
    select distinct run, source, rank, device from gpu_activity
),
cards as (
    select run, source, rank, device, coalesce(uuid, host || ' ' || bus_id) as card, name from devices
)
select
    run,
    min(rank) as rank,
    count(distinct rank) as count,
    format(
        'Ranks {} ran on one card{}.',
        array_to_string(list(distinct rank order by rank), ', '), coalesce(' (' || any_value(name) || ')', '')
    ) as message
from used
join cards using (run, source, rank, device)
where card is not null
group by run, card
having count(distinct rank) > 1
order by run, rank
