"""A finding is about one row where that is an outlier, else about all rows alike."""

import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.build import build_store
from tracelab.compare.outlier_rule import LEAST_RATIO, MOST_DEVIATIONS
from tracelab.query.library import library
from tracelab.query.report_rules import Cost, Finding
from tracelab.report.costs import ADDED, CHECKED_OF_RUN, MATCHING, matching_rows_sql
from tracelab.report.outliers import ALIKE, OUTLIERS, SUMMED, range_columns, sum_column
from tracelab.report.summary.lead import plain_text
from tracelab.report.summary.summarize import summarize
from tracelab.report.windows import create_windows

COLUMNS = ("run", "rank", "lost_ns", "window_ns")
SHARE = "{lost_ns of window_ns}"
FINDING = Finding(
    "lost_ns > 10",
    "lost_ns",
    "{where}",
    None,
    1,
    None,
    Cost("lost_ns", None, (), ("host",), 1),
    every=f"{{where}}: {SHARE}",
)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    con = duckdb.connect()
    create_windows(con, pa.Table.from_pylist([{"run": "a", "rank": 0, "window_ns": 1000}]), None, {})
    yield con
    con.close()


def first_row(
    con: duckdb.DuckDBPyConnection, costs: list[int | None], row_key: str | None = None, finding: Finding = FINDING
) -> dict[str, object]:
    """Return the row that the finding quotes, of rows with these costs on ranks 0, 1, …"""
    rows = [dict(zip(COLUMNS, ("a", rank, each, 100), strict=True)) for rank, each in enumerate(costs)]
    con.register("answer", pa.Table.from_pylist(rows))
    sql = matching_rows_sql(finding, "run", COLUMNS, least_share=0, by_cost=True, row_key=row_key)
    (row,) = con.sql(sql).to_arrow_table().to_pylist()
    return row


@pytest.mark.parametrize(
    ("costs", "alike"),
    [
        ([50, 51, 49, 50], True),
        ([50, 51, 49, 90], False),
        ([30, 36], True),  # 20 % more than the other is no outlier
        ([30, 37], False),
        ([60], False),  # one row is not several
        ([9, 9, 9, 11], False),  # one GPU alone has the finding
        ([9, 12, 16, 11], True),  # of 9, 11 and 12 the median is 11, and deviates by 1: 11 + 3.5 * 1.4826 * 1 = 16.2
        ([9, 12, 17, 11], False),
        ([12, 12, 50, 12, 50], True),  # two stand out alike
        ([12, 12, 50, 12, 41], False),  # 41 is more than 20 % below 50, so rank 2 stands out alone
    ],
)
def test_the_largest_row_is_an_outlier_by_factor_and_deviations(
    con: duckdb.DuckDBPyConnection, costs: list[int | None], *, alike: bool
) -> None:
    assert first_row(con, costs)[ALIKE] == alike


@example([11, 11, 14, 15])
@given(st.lists(st.integers(11, 200), min_size=2, max_size=12))
def test_the_rule_is_that_of_a_plain_computation(con: duckdb.DuckDBPyConnection, costs: list[int]) -> None:
    largest, *others = sorted(costs, reverse=True)
    typical = statistics.median(others)
    deviation = 1.4826 * statistics.median(abs(each - typical) for each in others)
    outliers = [
        {"rank": rank}
        for rank, each in enumerate(costs)
        if each - typical > LEAST_RATIO * typical
        and each - typical > MOST_DEVIATIONS * deviation
        and (1 + LEAST_RATIO) * each >= largest
    ]
    row = first_row(con, list(costs))
    assert row[ALIKE] == (len(outliers) != 1)
    assert row[OUTLIERS] == (outliers if len(outliers) > 1 else None)


def test_rows_that_are_alike_have_sums_and_the_range_of_their_shares(con: duckdb.DuckDBPyConnection) -> None:
    """Of 100 ns each, ranks 1 to 3 lose 50, 48 and 52; rank 0 loses 10, within the threshold."""
    row = first_row(con, [10, 50, 48, 52])
    assert (row[ALIKE], row["rank"], row[MATCHING], row[CHECKED_OF_RUN]) == (True, 3, 3, 4)
    assert [row[sum_column(SHARE, name)] for name in ("lost_ns", "window_ns")] == [150, 300]
    assert [row[name] for name in range_columns(SHARE)] == [0.48, 0.52]
    assert row[SUMMED] == 3


def test_the_sentence_counts_the_rows_that_its_terms_sum(con: duckdb.DuckDBPyConnection) -> None:
    """The rule holds for rank 0, too, which loses nothing."""
    row = first_row(con, [0, 50, 48, 52], finding=replace(FINDING, when="window_ns > 10"))
    assert (row[ALIKE], row[ADDED], row[SUMMED]) == (True, 3, 4)
    assert [row[sum_column(SHARE, name)] for name in ("lost_ns", "window_ns")] == [150, 400]


def test_rows_that_stand_out_alike_are_named_with_their_sums(con: duckdb.DuckDBPyConnection) -> None:
    """Ranks 2 and 6 of eight lose 50 and 48 of 100 ns, the others 12."""
    row = first_row(con, [12, 12, 50, 12, 12, 12, 48, 12])
    assert row[OUTLIERS] == [{"rank": 2}, {"rank": 6}]
    assert [row[sum_column(SHARE, name)] for name in ("lost_ns", "window_ns")] == [98, 200]
    assert (row[ADDED], [row[name] for name in range_columns(SHARE)]) == (8, [0.48, 0.5])


@pytest.mark.parametrize(
    ("idle", "words"),
    [
        (
            [120, 120, 500, *[120] * 7, 480],
            "Ranks 2 and 10 idle for 49.00 % (980 ns of 2.000 µs; each 48.00 % to 50.00 %)",
        ),
        ([*[120] * 6, *[500] * 5], "5 of 11 GPUs idle for 50.00 % (2.500 µs of 5.000 µs; each 50.00 %)"),
        ([120, 120, 500, 120], "Rank 2 idles for 50.00 % (500 ns of 1.000 µs)"),
    ],
)
def test_the_sentence_names_several_outliers_and_counts_many(tmp_path: Path, idle: list[int], words: str) -> None:
    kernels = [
        {"rank": rank, "device": 0, "stream": 7, "name": "gemm", "start_ns": start, "dur_ns": end - start}
        for rank, each in enumerate(idle)
        for start, end in ((0, 500 - each // 2), (500 - each // 2 + each, 1000))
    ]
    (found,) = summarize(build_store(tmp_path / "lab", {"kernels": kernels}))
    assert plain_text(found.leads[0].sentence).startswith(words)


def test_of_equal_rows_the_first_rank_is_quoted(con: duckdb.DuckDBPyConnection) -> None:
    for ranks in ((3, 1, 2), (2, 3, 1)):
        rows = [dict(zip(COLUMNS, ("a", rank, 50, 100), strict=True)) for rank in ranks]
        con.register("answer", pa.Table.from_pylist(rows))
        sql = matching_rows_sql(FINDING, "run", COLUMNS, least_share=0, by_cost=True)
        assert [row["rank"] for row in con.sql(sql).to_arrow_table().to_pylist()] == [1]


def test_rows_about_one_thing_count_once(con: duckdb.DuckDBPyConnection) -> None:
    """Ranks 0 and 1 are of one host, as 2 and 3 are, and rank 4 is of none."""
    row = first_row(con, [50, 50, 10, 10, 50], "case when rank < 4 then rank // 2 end")
    assert (row[MATCHING], row[CHECKED_OF_RUN], row[ADDED]) == (1, 2, 1)


def test_each_finding_that_leads_and_adds_up_over_all_rows_has_a_sentence_about_all_of_them() -> None:
    findings = [(name, each) for name, query in library().items() if query.report for each in query.report.findings]
    lacking = [
        name for name, each in findings if each.cost and each.cost.leads and each.cost.adds == () and not each.every
    ]
    assert lacking == []
    assert sum(each.every is not None for _, each in findings) > 15


def test_a_summary_states_what_all_gpus_have_in_common(tmp_path: Path) -> None:
    """Four GPUs with windows of 1000 ns idle for 390 to 420 ns before work whose launch is not known."""
    idle = (400, 390, 420, 400)
    kernels = [
        {"rank": rank, "device": 0, "stream": 7, "name": "gemm", "start_ns": start, "dur_ns": end - start}
        for rank, each in enumerate(idle)
        for start, end in ((0, 500), (500 + each, 1000))
    ]
    (found,) = summarize(build_store(tmp_path / "lab", {"kernels": kernels}))
    (lead,) = found.leads
    assert plain_text(lead.sentence) == (
        "All 4 GPUs idle for 40.25 % (1.610 µs of 4.000 µs; each 39.00 % to 42.00 %) of their windows before work "
        "whose launch is not known, so that the cause is not known either."
    )
    assert (lead.rank, lead.next_command.split(" --store")[0]) == (
        2,
        "tracelab query idle_causes --run r --columns rank,device,window_ns,unknown_ns --sort=-unknown_ns",
    )
