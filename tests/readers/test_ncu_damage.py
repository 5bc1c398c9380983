"""Damaged and dirty reports: intact rows are kept, lost ones are counted, nothing raises."""

import gzip
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.ncu import Cell, Kernel, Rule, console_text, details_csv, raw_csv
from tests.properties import examples
from tests.readers.small import ingest_bytes
from tracelab.readers.ncu.read_report import parse_lines
from tracelab.readers.ncu.report_builder import ReportBuilder
from tracelab.readers.text_lines import iter_lines

KERNELS = [Kernel("void axpy<float, 4>(float *, float)", at) for at in range(4)]
CELLS = [Cell("dram__bytes.sum", "Kbyte", "32.77"), Cell("Elapsed Cycles", "cycle", "830,424", "GPU Speed Of Light")]
ROWS = [(kernel, cell) for kernel in KERNELS for cell in CELLS]
RULES = [(kernel, Rule("Occupancy", "INF", "Look at\nit.")) for kernel in KERNELS]
UNITS = {"gpu__time_duration.sum": "usecond", "dram__bytes.sum": "Mbyte", "inst_executed": "inst"}
PLAIN = details_csv(ROWS)
RULED = details_csv([pair for both in zip(ROWS[::2], RULES, strict=True) for pair in both])
RAW = raw_csv(UNITS, [(kernel, ["10.72", "1,215.5", "7 (3; 4)"]) for kernel in KERNELS])
CONSOLE = console_text(ROWS)
PAGES = {"plain": PLAIN, "ruled": RULED, "raw": RAW, "console": CONSOLE}


def read(content: str | bytes) -> tuple[list[dict[str, object]], ReportBuilder]:
    """The rows of a text, without a store."""
    tables: list[object] = []
    report = ReportBuilder(lambda _, table: tables.append(table))
    data = content.encode(errors="surrogatepass") if isinstance(content, str) else content
    parse_lines(iter_lines(io.BytesIO(data), report.diagnostics), report)
    return [row for table in tables for row in table.to_pylist()], report


WHOLE = {name: read(page)[0] for name, page in PAGES.items()}


def test_the_pages_are_whole():
    assert {name: len(rows) for name, rows in WHOLE.items()} == {"plain": 8, "ruled": 4, "raw": 20, "console": 8}


@pytest.mark.parametrize("name", ["plain", "ruled", "raw"])
def test_a_cut_costs_the_row_it_goes_through_and_makes_no_other_value(name):
    page, whole = PAGES[name], WHOLE[name]
    per_line = {"plain": 1, "ruled": 1, "raw": 5}[name]
    heads = {"plain": 1, "ruled": 1, "raw": 2}[name]
    for cut in range(page.index("\n") + 1, len(page)):
        rows, _ = read(page[:cut])
        lines = page[:cut].split("\n")[heads:-1]
        metrics = [line for line in lines if "Occupancy" not in line and not line.startswith("it.")]
        assert rows == whole[: len(rows)] or name == "raw"
        assert len(rows) >= per_line * len(metrics)
        if name == "raw":  # a launch that is cut keeps the metrics that are closed
            assert [row for row in rows if row not in whole] == []


def test_a_cut_row_is_reported(tmp_path):
    lab = ingest_bytes(tmp_path, PLAIN[:-5], "ncu.csv")
    assert (lab.file.status, lab.counts, lab.source["complete"]) == ("salvaged", (8, 7, 1), False)
    assert lab.diagnostics() == {"cut_off", "row_lost"}


def test_a_raw_launch_without_its_last_metrics_keeps_the_others(tmp_path):
    lab = ingest_bytes(tmp_path, RAW[: RAW.rindex(',"1,215.5"')], "ncu.csv")
    assert [row["value"] for row in lab.rows("kernel_metrics")][-2:] == [4.0, 10720.0]
    assert lab.diagnostics() == {"row_short"}
    assert lab.source["complete"] is False


@pytest.mark.parametrize("mark", ['"', ""])
@pytest.mark.parametrize("name", ["plain", "raw"])
def test_one_quote_too_many_or_too_few_costs_one_row_at_most(name, mark):
    page, per_line = PAGES[name], {"plain": 1, "raw": 5}[name]
    begin = page.index('"1","4242"')
    end = page.index("\n", begin)
    first = page[:begin].count("\n") - {"plain": 1, "raw": 2}[name]
    others = WHOLE[name][: per_line * first] + WHOLE[name][per_line * (first + 1) :]
    for place in range(begin, end):
        if not mark and page[place] != '"':
            continue
        rows, report = read(page[:place] + mark + page[place + (not mark) :])
        assert [row for row in rows if row in others] == others, place
        assert report.kept + report.skipped == page.count("\n") - {"plain": 1, "raw": 2}[name], place


def test_a_quote_in_a_kernel_s_name_that_is_not_doubled_costs_nothing():
    rows, report = read(PLAIN.replace("axpy<float, 4>", 'axpy<"a", 4>'))
    assert [row | {"kernel": ""} for row in rows] == [row | {"kernel": ""} for row in WHOLE["plain"]]
    assert (report.kept, report.skipped) == (8, 0)


def test_rows_that_two_processes_write_into_each_other_cost_the_torn_one():
    lines = PLAIN.splitlines()
    torn = [*lines[:3], lines[3][:40], lines[4], lines[3][40:], *lines[5:]]
    rows, report = read("\n".join(torn) + "\n")
    assert rows == WHOLE["plain"][:2] + WHOLE["plain"][3:]
    assert (report.kept, report.skipped) == (7, 1)


def test_a_row_after_an_unfinished_line_of_the_program_is_read():
    rows, report = read(PLAIN.replace('"2","4242"', 'Epoch 3: 100%\r"2","4242"'))
    assert rows == WHOLE["plain"]
    assert report.diagnostics.counts["stray_line"] == 2


def test_a_second_table_in_one_file_has_its_own_columns():
    rows, _ = read(RAW + "==PROF== Disconnected from process 4242\n" + PLAIN)
    assert rows == WHOLE["raw"] + WHOLE["plain"]


def test_messages_of_ncu_may_come_anywhere():
    for page, whole in ((PLAIN, "plain"), (CONSOLE, "console"), (RAW, "raw")):
        noisy = "".join(f'==WARNING== A "warning, of ncu\n==PROF== 0%..50%\n{line}\n' for line in page.splitlines())
        rows, report = read(noisy)
        assert rows == WHOLE[whole]
        assert report.diagnostics.counts["tool_warning"] == page.count("\n")


NOISE = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=60)


@examples(200)
@given(st.lists(NOISE, min_size=10, max_size=10), st.sampled_from(["plain", "raw", "ruled"]))
@example(['"', '","', '"0","', '""', "ID", "Kernel Name", "==", "\0", "\ufeff", "\x85"], "plain")
def test_the_program_s_output_between_rows_costs_nothing(noise, name):
    page = PAGES[name]
    starts = [at for at, line in enumerate(page.splitlines()) if line.startswith(('"', "="))]
    lines = page.splitlines()
    for at, text in zip(reversed(starts[2:]), noise, strict=False):
        lines.insert(at, text)
    rows, report = read("\n".join(lines) + "\n")
    assert rows == WHOLE[name]
    assert report.skipped == 0


@examples(300)
@given(st.binary(max_size=400), st.integers(0, 2000), st.sampled_from(sorted(PAGES)))
def test_bytes_thrown_in_anywhere_raise_nothing_and_leave_the_rows_before(junk, place, name):
    data = PAGES[name].encode()
    place = min(place, len(data))
    rows, report = read(data[:place] + junk + data[place:])
    before = data[:place].count(b"\n")
    if name == "plain" and before > 1:
        assert rows[: before - 1] == WHOLE[name][: before - 1]
    assert report.kept <= report.line


WORDS = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=20).map(str.strip)
NAMES = WORDS.filter(lambda text: text != "" and not text.startswith("=="))
NUMBERS = st.decimals(min_value=-(10**12), max_value=10**12, places=3)
SCALES = {"us": ("ns", 3), "Kbyte": ("byte", 3), "Gbyte/s": ("byte/s", 9), "%": ("%", 0), "cycle/nsecond": ("Hz", 9)}


@examples(200)
@given(
    st.lists(st.tuples(NAMES, NAMES, NUMBERS, st.sampled_from(sorted(SCALES))), min_size=3, max_size=8),
    st.sampled_from(",;\t"),
    st.sampled_from([("", "."), (",", "."), (".", ","), ("", ",")]),
)
def test_numbers_of_any_locale_are_read_back(cells, separator, marks):
    def text(number) -> str:
        return f"{number:,.3f}".translate(str.maketrans({",": marks[0], ".": marks[1]}))

    evidence = [(Kernel(), Cell(f"evidence_{at}", "", text(12345678.5))) for at in range(len(cells) + 3)]
    rows = [(Kernel(name, at), Cell(metric, unit, text(n))) for at, (name, metric, n, unit) in enumerate(cells)]
    stored, report = read(details_csv(evidence + rows, separator=separator))
    columns = ("kernel", "value", "unit", "metric", "launch")
    found = [tuple(row[name] for name in columns) for row in stored[len(evidence) :]]
    expected = [
        (name, float(n.scaleb(SCALES[unit][1])), SCALES[unit][0], metric, at)
        for at, (name, metric, n, unit) in enumerate(cells)
    ]
    assert found == expected
    assert report.skipped == 0


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n", "not_profiler_data", "had no permission"),
        ("==PROF== Connected\n==WARNING== No kernels were profiled.\n", "not_profiler_data", "profiled no kernels"),
        (PLAIN.splitlines()[0] + "\n", "not_profiler_data", "the header of ncu's table, but no launch"),
        ("==PROF== Connected to process 1\n", "not_profiler_data", "no table; export one: ncu --import"),
        (PLAIN.splitlines()[0] + '\n"0","4242"\n', "not_profiler_data", "but none is readable"),
        ("==ERROR== LaunchFailed\n", "not_profiler_data", "only an error of ncu: LaunchFailed; fix it"),
        ("==ERROR== Failed to do it.\n", "not_profiler_data", "an error of ncu: an unknown message of 16 characters;"),
        (PLAIN + "==ERROR== ERR_NVGPUCTRPERM - no\n", "salvaged", "had no permission to read the GPU's counters"),
        (PLAIN + "==ERROR== The application returned an error code (11).\n", "salvaged", "(11)"),
    ],
)
def test_a_failure_of_ncu_is_reported_with_its_remedy(tmp_path, content, status, message):
    result = ingest_bytes(tmp_path, content, "ncu.csv").file
    assert result.status == status
    assert message in result.message


def test_a_raw_page_without_units_is_reported():
    lines = RAW.splitlines()
    rows, report = read("\n".join([lines[0], *lines[2:]]) + "\n")
    assert len(rows) == 20
    assert report.diagnostics.counts["units_missing"] == 1


def test_a_broken_gzip_keeps_everything_before_the_break(tmp_path):
    packed = gzip.compress((PLAIN * 200).encode())
    lab = ingest_bytes(tmp_path, packed[: len(packed) // 2], "ncu.csv.gz")
    assert lab.file.status == "salvaged"
    assert "compressed_cut_off" in lab.diagnostics()
    assert len(lab.rows("kernel_metrics")) > 400


def test_instances_beyond_csv_s_own_limit_are_read():
    parts = "; ".join(str(at) for at in range(40_000))
    rows, report = read(details_csv([(Kernel(), Cell("a__b", "inst", f"7 ({parts})"))]))
    assert len(rows) == 40_001
    assert report.skipped == 0


def test_endless_advice_is_counted_beyond_a_limit():
    rule = (Kernel(), Rule("Occupancy", "INF", "Look."))
    _, report = read(details_csv([rule] * 10_007))
    assert len(report.advised.messages) == 10_000
    assert report.diagnostics.counts["advice_beyond_limit"] == 7


def test_a_short_row_may_lack_any_column_after_the_value():
    names = ["ID", "Process ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value", "Section Name"]
    rows, report = read(",".join(names) + "\n0,1,axpy(),a__b.sum,byte,7\n")
    assert [(row["value"], row["section"]) for row in rows] == [(7.0, None)]
    assert report.skipped == 0


def test_rows_with_more_cells_than_the_header_are_lost_instead_of_shifted(tmp_path):
    rows = [(Kernel("k"), Cell("Duration", "ns", "7000")), (Kernel("k", id=1), Cell("Duration", "ns", "7001"))]
    lab = ingest_bytes(tmp_path, details_csv(rows).replace('"Device","CC"', '"DeviceCC"'), "details.csv")
    assert lab.file.status == "not_profiler_data"
    assert "has rows of ncu, but none is readable" in lab.file.message


@pytest.mark.parametrize("text", ["x==PROF== Connected to process 7 (train hunter2)", "= --token hunter2)"])
def test_parts_of_command_lines_that_damage_makes_values_are_withheld(tmp_path, text):
    rows = [(Kernel("k"), Cell("Function Cache", "", value)) for value in (text, "PreferNone", "7")]
    lab = ingest_bytes(tmp_path, details_csv(rows), "details.csv")
    assert [(row["value"], row["text"]) for row in lab.rows("kernel_metrics")] == [
        (None, None),
        (None, "PreferNone"),
        (7.0, None),
    ]
    assert "hunter2" not in lab.texts()
    assert "text_withheld" in lab.diagnostics()


NAME_WITH_COMMAND = "dram__bytes to launch ./train.py --token hunter2"


@pytest.mark.parametrize(
    "page",
    [
        raw_csv({NAME_WITH_COMMAND: "byte", "a__b.sum": "byte"}, [(Kernel("k"), ["7", "8"])]),
        details_csv(
            [(Kernel("k"), Cell(name, "byte", text)) for name, text in ((NAME_WITH_COMMAND, "7"), ("a__b.sum", "8"))]
        ),
    ],
)
def test_metrics_whose_name_damage_joins_to_a_command_line_are_skipped(tmp_path, page):
    lab = ingest_bytes(tmp_path, page, "report.csv")
    assert [(row["metric"], row["value"]) for row in lab.rows("kernel_metrics")] == [("a__b.sum", 8.0)]
    assert "hunter2" not in lab.texts()
    assert "metric_lost" in lab.diagnostics()
