"""Select the rows of a finding, each with its cost.

The one definition of a cost, for the summary, the sections of the report and the rules:

    cost     the time that the devices of the run lose to the cause, added up over them
    share    cost / measured time of the run: the windows of all its devices, added up (`report.windows`)

Of exposed communication and copies the share is of the part that can be recovered (the query recoverable_exposure): not
where the device would wait for the CPU side in their place.

So a device that idles for 40 % of its window costs a run of eight such devices 5 %. Where the costs of a finding's rows
add up (`Cost.adds`), its cost is that of all rows of the run, or of all with the same values, for which the rule holds.
A query divides what the training loop measured, without a trace, by the steps of all ranks (`Cost.of`).

The run need not get shorter by the cost: by less where another wait takes the place of the lost time, by more where
ranks wait one behind the other. The summary replays the run, as the query what_if does, and ranks by what it gains, or
by the cost that this bounds (`report.summary.replays`). What a finding costs per step is its share of the mean step.
"""

from collections.abc import Sequence

from tracelab.output.labels import IDENTITY
from tracelab.query.report_rules import LEAST_SHARE, PLACEHOLDER, Finding
from tracelab.report.outliers import RowColumns, alike_ctes, count_sql
from tracelab.report.sentences import SHARE
from tracelab.report.windows import recoverable_ratio_sql

MATCHING, CHECKED, CHECKED_OF_RUN = ("\x1bmatching", "\x1bchecked", "\x1bchecked of run")
"""Columns of a finding's rows, with names that no column of an answer has: the number of matching rows, of all rows of
the group, and of all of the run. Rows with the same `Report.row_key` count once."""
ROW_COST, COST, ADDED, WHOLE, COST_SHARE, STEP, MEASURED_STEP, KEPT = (
    f"\x1b{name}" for name in ("row cost", "cost", "added", "whole", "cost share", "step", "measured step", "kept")
)
"""Cost of the row in ns, that of the finding, the number of rows that it adds up, the measured time of the run, the
recoverable cost's share of that, the mean step of the run in ns, the part of that which the windows cover, and the
part of the cost that is recoverable."""
OF = "\x1bof"
"""What the query measured of the run, such as its steps, where the share is of that; else NULL."""
_RULE, _ABOUT, _KEY = ("\x1brule", "\x1babout", "\x1bkey")
_PLACE_COLUMNS = ("rank", "device", "step")
"""Of rows with the same cost the first one by these columns comes first, then by all others."""


def matching_rows_sql(
    finding: Finding,
    scope: str,
    columns: Sequence[str],
    *,
    least_share: float = LEAST_SHARE,
    by_cost: bool = False,
    row_key: str | None = None,
) -> str:
    """Return SQL for the first matching rows, overall or per run, with counts, costs and the shares in the text.

    `columns` are those of the answer. Rows with a cost of a smaller share than `least_share` are left out. With
    `by_cost`, only the most expensive of rows whose costs add up remains. `row_key` is that of the report.
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
    added_up = _partition_clause(run, *(adds or ()))
    is_one_of_group = finding.each is not None or (by_cost and adds is not None)
    count = "*" if row_key is None else f'distinct "{_KEY}"'
    ties = ", ".join(f'"{name}"' for name in [*(each for each in _PLACE_COLUMNS if each in columns), *columns])
    return _MATCHING_ROWS.format(
        when=finding.when,
        about=cost.rows if cost else "true",
        key="1" if row_key is None else f"({row_key})",
        count=count,
        matching=count_sql(count, f'"{_RULE}"', group),
        shares=shares,
        cost_ns=cost.ns if cost else "null",
        kept=recoverable_ratio_sql(cost.topics) if cost else "1",
        of_ns=f"sum({cost.of}) over ({_partition_clause(run)})" if cost and cost.of else "null",
        same_run=f'r."{run}"' if run else "null",
        cost_rows=f'sum("{ROW_COST}") filter ("{_RULE}") over ({added_up})' if adds is not None else f'"{ROW_COST}"',
        added=count_sql(count, f'"{_RULE}" and "{ROW_COST}" > 0', added_up) if adds is not None else "1",
        alike=alike_ctes(
            finding,
            RowColumns(_RULE, _ABOUT, ROW_COST, ADDED),
            count=count,
            partition=added_up,
            identity=[name for name in IDENTITY if name in columns and name != "run"],
        ),
        group=group,
        of_run=_partition_clause(run),
        partition=partition,
        has_values="".join(f' and "{name}" is not null' for name in finding.required),
        least_share=least_share,
        order=f'order by "{COST_SHARE}" desc nulls last, "{ROW_COST}" desc nulls last, ({finding.by}) desc nulls last, '
        + ties,
        most_in_group=1 if is_one_of_group else finding.most,
        most=finding.most,
    )


_MATCHING_ROWS = f"""\
with rules as (
    select *, coalesce(({{when}}), false) as "{_RULE}", ({{cost_ns}})::double as "{ROW_COST}",
        coalesce(({{about}}), false) as "{_ABOUT}", {{key}} as "{_KEY}", ({{of_ns}})::double as "{OF}"{{shares}}
    from answer
),
measured as (
    select r.*, coalesce("{OF}", w.window_ns) as "{WHOLE}", w.step_ns as "{STEP}",
        w.measured_step_ns as "{MEASURED_STEP}", {{kept}} as "{KEPT}"
    from rules as r
    left join report.windows as w on w.run = {{same_run}}
    left join report.recoverable as x on x.run = {{same_run}}
),
summed as (
    select *, {{cost_rows}} as "{COST}", {{added}} as "{ADDED}" from measured
),
{{alike}},
costed as (
    select *, "{COST}" * "{KEPT}" / nullif("{WHOLE}", 0) as "{COST_SHARE}" from alike
),
counted as (
    select
        *,
        count({{count}}) over ({{group}}) as "{CHECKED}",
        {{matching}} as "{MATCHING}",
        count({{count}}) over ({{of_run}}) as "{CHECKED_OF_RUN}"
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
