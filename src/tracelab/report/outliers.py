"""Decide which rows of a finding are outliers, so that the sentence is about them, or about all rows alike.

A row is an outlier if its cost exceeds the median of the others, without the largest, by the rule of
`tracelab.compare.outlier_rule`.

The others are all rows that the cost is about, those within the threshold of the rule included: one GPU of eight that
idles is an outlier though no other row has the finding. The sentence names the largest outlier, and those whose costs
are within 20 % of its cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tracelab.compare.outlier_rule import LEAST_RATIO, least_distance_sql
from tracelab.query.report_rules import PLACEHOLDER, Finding

ALIKE = "\x1balike"
"""Column of a finding's rows: whether the sentence is about several rows, as none is an outlier, or several are."""
OUTLIERS = "\x1boutliers"
"""Column of a finding's rows: the identities of several outliers, a struct each; NULL unless there are several."""
SUMMED = "\x1bsummed"
"""Column of a finding's rows: over how many rows the terms of the sentence about all of them are summed."""
_PLACE, _TYPICAL, _DEVIATION, _LARGEST = (f"\x1b{name}" for name in ("place", "typical", "deviation", "largest"))
_IS_OUTLIER, _HAS_OUTLIER, _SEVERAL = (f"\x1b{name}" for name in ("is outlier", "has outlier", "several"))


def sum_column(placeholder: str, column: str) -> str:
    """Return the column with the sum of a term of `{part of whole}` over the rows; its name ends with the unit."""
    return f"\x1bsum {placeholder} {column}"


def range_columns(placeholder: str) -> tuple[str, str]:
    """Return the columns with the least and the largest share of the rows."""
    return f"\x1bleast {placeholder}", f"\x1blargest {placeholder}"


@dataclass(frozen=True)
class RowColumns:
    """Columns of the rows of a finding, by what they hold."""

    rule: str
    """Whether the rule holds."""
    about: str
    """Whether the cost is about the row."""
    cost: str
    """The row's cost."""
    added: str
    """The number of rows that add up."""


def alike_ctes(finding: Finding, columns: RowColumns, *, count: str, partition: str, identity: Sequence[str]) -> str:
    """Return CTEs, the last one `alike`, that append ALIKE, OUTLIERS, SUMMED, sums and ranges to the CTE `summed`.

    `count` is what to count for the number of rows, `partition` that of the rows that add up, and `identity` names the
    columns that identify a row.
    """
    rule, about, cost, added = columns.rule, columns.about, columns.cost, columns.added
    if finding.every is None:
        return f"""alike as (
    select *, false as "{ALIKE}", null as "{OUTLIERS}", null::bigint as "{SUMMED}" from summed
)"""
    others = f'filter ("{about}" and "{_PLACE}" > 1) over ({partition})'
    outlying = f'"{rule}" and "{about}" and "{_IS_OUTLIER}"'
    placed = f'{partition}, "{about}"' if partition else f'partition by "{about}"'
    return f"""placed as (
    select *, row_number() over ({placed} order by "{cost}" desc nulls last) as "{_PLACE}" from summed
),
typical as (
    select
        *,
        median("{cost}") {others} as "{_TYPICAL}",
        max("{cost}") filter ("{about}") over ({partition}) as "{_LARGEST}"
    from placed
),
compared as (
    select *, median(abs("{cost}" - "{_TYPICAL}")) {others} as "{_DEVIATION}" from typical
),
judged as (
    select
        *,
        coalesce(
            "{cost}" - "{_TYPICAL}" > {least_distance_sql(f'"{_TYPICAL}"', f'"{_DEVIATION}"')}
            and {1 + LEAST_RATIO} * "{cost}" >= "{_LARGEST}",
            false
        ) as "{_IS_OUTLIER}"
    from compared
),
grouped as (
    select
        *,
        coalesce(bool_or("{_IS_OUTLIER}") filter ("{about}") over ({partition}), false) as "{_HAS_OUTLIER}",
        {count_sql("*", outlying, partition)} > 1 as "{_SEVERAL}"
    from judged
),
alike as (
    select
        *,
        "{added}" > 1 and ("{_SEVERAL}" or not "{_HAS_OUTLIER}") as "{ALIKE}",
        case when "{_SEVERAL}" then list_sort(list({_struct(identity)}) filter ({outlying}) over ({partition})) end
            as "{OUTLIERS}"
        {_sums(finding.every, f'"{rule}" and ("{_IS_OUTLIER}" or not "{_HAS_OUTLIER}")', count, partition)}
    from grouped
)"""


def count_sql(count: str, condition: str, partition: str) -> str:
    """Return SQL for `count` (`*`, or `distinct` and a column) over rows of a partition for which a condition holds.

    DuckDB 2.0 takes quadratic time for count(*) with a filter over a whole partition: 11 s for 194,000 rows.
    """
    if count == "*":
        return f"(count_if({condition}) over ({partition}))::bigint"
    return f"count({count}) filter ({condition}) over ({partition})"


def _struct(names: Sequence[str]) -> str:
    return "{" + ", ".join(f"'{name}': \"{name}\"" for name in names) + "}" if names else "{'row': 0}"


def _sums(text: str, condition: str, count: str, partition: str) -> str:
    """Return SQL for the sums and the range of the shares in a text, over the rows for which a condition holds.

    Rows without a term are in none, so that SUMMED counts those that have the terms of the first share.
    """
    columns: list[str] = []
    has_terms = ""
    for placeholder in {each[0]: each for each in PLACEHOLDER.finditer(text)}.values():
        part, whole = placeholder["part"], placeholder["whole"]
        if whole is None:
            continue
        has_both = f" and {part} is not null and {whole} > 0"
        has_terms = has_terms or has_both
        over = f"filter ({condition}{has_both}) over ({partition})"
        columns += [f'(sum({name}) {over})::bigint as "{sum_column(placeholder[0], name)}"' for name in (part, whole)]
        columns += [
            f'{which}({part} / {whole}) {over} as "{name}"'
            for which, name in zip(("min", "max"), range_columns(placeholder[0]), strict=True)
        ]
    columns.append(f'{count_sql(count, f"{condition}{has_terms}", partition)} as "{SUMMED}"')
    return "".join(f",\n        {column}" for column in columns)
