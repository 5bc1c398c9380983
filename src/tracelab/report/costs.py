"""Select the rows of a finding, each with its cost.

The one definition of a cost, for the summary, the sections of the report and the rules:

    cost     the time that the devices of the run lose to the cause, added up over them
    share    cost / measured time of the run: the windows of all its devices, added up (`report.windows`)

So a device that idles for 40 % of its window costs a run of eight such devices 5 %. Where the costs of a finding's rows
add up (`Cost.adds`), its cost is that of all rows of the run, or of all with the same values, for which the rule holds.
A query that measures steps in place of a window divides by the steps of all ranks (`Cost.of`).

The run need not get shorter by the cost: by less where another wait takes the place of the lost time, by more where
ranks wait one behind the other. The query what_if replays the run and computes it.
"""

from collections.abc import Sequence

from tracelab.query.report_rules import LEAST_SHARE, PLACEHOLDER, Finding
from tracelab.report.sentences import SHARE

MATCHING = "\x1bmatching"
CHECKED = "\x1bchecked"
"""Columns of a finding's rows, with names that no column of an answer has: the number of matching rows, and of all."""
ROW_COST, COST, ADDED, WHOLE, COST_SHARE, STEP = (
    f"\x1b{name}" for name in ("row cost", "cost", "added", "whole", "cost share", "step")
)
"""Cost of the row in ns, that of the finding, the number of rows that it adds up, the measured time of the run, the
cost's share of that, and the measured time of a step on a device in ns."""
OF = "\x1bof"
"""What the query measured of the run, such as its steps, where the share is of that; else NULL."""
_RULE = "\x1brule"


def matching_rows_sql(
    finding: Finding,
    scope: str,
    columns: Sequence[str],
    *,
    least_share: float = LEAST_SHARE,
    by_cost: bool = False,
) -> str:
    """Return SQL for the first matching rows, overall or per run, with counts, costs and the shares in the text.

    `columns` are those of the answer. Rows with a cost of a smaller share than `least_share` are left out. With
    `by_cost`, only the most expensive of rows whose costs add up remains.
    """
    ratios = {
        match[0]: match for match in PLACEHOLDER.finditer(finding.text + (finding.advice or "")) if match["whole"]
    }
    shares = "".join(
        f', {each["part"]} / nullif({each["whole"]}, 0) as "{SHARE}{placeholder}"'
        for placeholder, each in ratios.items()
    )
    cost = finding.cost
    adds = None if cost is None else cost.adds
    each = (finding.each,) if finding.each else (adds or ()) if by_cost else ()
    run = "run" if "run" in columns else ""
    group, partition = (_partition_clause(*names) for names in ((scope, *each), (scope,)))
    is_one_of_group = finding.each is not None or (by_cost and adds is not None)
    return _MATCHING_ROWS.format(
        when=finding.when,
        shares=shares,
        cost_ns=cost.ns if cost else "null",
        of_ns=f"sum({cost.of}) over ({_partition_clause(run)})" if cost and cost.of else "null",
        same_run=f'r."{run}"' if run else "null",
        cost_rows=f'sum("{ROW_COST}") filter ("{_RULE}") over ({_partition_clause(run, *adds)})'
        if adds is not None
        else f'"{ROW_COST}"',
        added=f'count("{ROW_COST}") filter ("{_RULE}") over ({_partition_clause(run, *adds)})'
        if adds is not None
        else "1",
        group=group,
        partition=partition,
        has_values="".join(f' and "{name}" is not null' for name in finding.required),
        least_share=least_share,
        order=f'order by "{COST_SHARE}" desc nulls last, "{ROW_COST}" desc nulls last, ({finding.by}) desc nulls last',
        most_in_group=1 if is_one_of_group else finding.most,
        most=finding.most,
    )


_MATCHING_ROWS = f"""\
with rules as (
    select *, coalesce(({{when}}), false) as "{_RULE}", ({{cost_ns}})::double as "{ROW_COST}",
        ({{of_ns}})::double as "{OF}"{{shares}}
    from answer
),
measured as (
    select r.*, coalesce("{OF}", w.window_ns) as "{WHOLE}", w.step_ns as "{STEP}"
    from rules as r
    left join report.windows as w on w.run = {{same_run}}
),
summed as (
    select *, {{cost_rows}} as "{COST}", {{added}} as "{ADDED}" from measured
),
costed as (
    select *, "{COST}" / nullif("{WHOLE}", 0) as "{COST_SHARE}" from summed
),
counted as (
    select *, count(*) over ({{group}}) as "{CHECKED}", count(*) filter ("{_RULE}") over ({{group}}) as "{MATCHING}"
    from costed
),
firsts as (
    from counted
    where "{_RULE}"{{has_values}} and coalesce("{COST_SHARE}", 1) >= {{least_share}}
    qualify row_number() over ({{group}} {{order}}) <= {{most_in_group}}
)
from firsts
qualify row_number() over ({{partition}} {{order}}) <= {{most}}
{{order}}"""


def _partition_clause(*names: str) -> str:
    columns = ", ".join(f'"{name}"' for name in names if name)
    return f"partition by {columns}" if columns else ""
