"""The queries named like reports of `nsys stats`, against plain Python over fractions."""

import json
from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from math import floor
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory import MemoryStore
from tests.properties import examples

Row = dict[str, object]

OPERATIONS = {"HtoD": "Host-to-Device", "UVM DtoH": "Unified Device-to-Host", None: "Unknown"}
STYLES = {None: "PushPop", "push_pop": "PushPop", "start_end": "StartEnd"}

timed = {
    "run": st.sampled_from(["r", "s"]),
    "source": st.sampled_from(["a", "b"]),
    "start_ns": st.one_of(st.none(), st.integers(0, 40)),
    "dur_ns": st.one_of(st.none(), st.integers(-1, 40)),
}
placed = {"rank": st.sampled_from([0, 1]), "device": st.sampled_from([0, 1])}
linked = {"pid": st.sampled_from([5, 6, None]), "correlation": st.sampled_from([1, 2, 3, None])}
named = {"name": st.sampled_from(["one", "two", None])}
kernels = st.fixed_dictionaries(timed | placed | linked | named)
copies = st.fixed_dictionaries(
    timed | placed | {"direction": st.sampled_from([*OPERATIONS]), "size_bytes": st.sampled_from([None, 0, 500, 62500])}
)
memsets = st.fixed_dictionaries(timed | placed | {"size_bytes": st.sampled_from([None, 0, 500, 62500])})
calls = st.fixed_dictionaries(
    timed | linked | named | {"tid": st.sampled_from([5, 6]), "api": st.sampled_from(["runtime", "driver", "osrt"])}
)
ranges = st.fixed_dictionaries(
    timed
    | named
    | {
        "domain": st.sampled_from([None, "D"]),
        "scope": st.sampled_from(["cpu", "cpu", "gpu"]),
        "args": st.sampled_from([None, "push_pop", "start_end", "mark"]),
    }
)
checked = examples(25)


def ask(memory: MemoryStore, name: str, tables: dict[str, list[Row]]) -> list[tuple]:
    """The answer's rows without the StdDev columns, which are checked on their own."""
    answer = memory.filled(tables).query(name)
    kept = [column for column in answer.column_names if "StdDev" not in column]
    return [tuple(row.values()) for row in answer.select(kept).to_pylist()]


def tenth(value: Fraction | int) -> Decimal:
    return Decimal(floor(value * 10 + Fraction(1, 2))).scaleb(-1)


def timed_rows(rows: Iterable[Row]) -> Iterable[Row]:
    return (row for row in rows if None not in (row["start_ns"], row["dur_ns"]) and row["dur_ns"] >= 0)


def six(values: list[int]) -> tuple:
    """Mean, median, least and most."""
    return (
        tenth(Fraction(sum(values), len(values))),
        tenth(median(map(Fraction, values))),
        min(values),
        max(values),
    )


def report(values: Iterable[tuple[str, tuple, int]]) -> set[tuple]:
    """A report on (run, key, duration)."""
    parts: dict[tuple, list[int]] = defaultdict(list)
    sums: dict[str, int] = defaultdict(int)
    for run, key, dur in values:
        parts[run, key].append(dur)
        sums[run] += dur
    return {
        (
            run,
            sums[run],
            tenth(Fraction(100 * sum(durs), sums[run])) if sums[run] else None,
            sum(durs),
            len(durs),
            *six(durs),
            *key,
        )
        for (run, key), durs in parts.items()
    }


@checked
@given(st.lists(kernels, min_size=1, max_size=12))
def test_kernels_are_summed_up_by_run_and_name(memory, listed):
    found = ask(memory, "cuda_gpu_kern_sum", {"kernels": listed})
    assert set(found) == report((row["run"], (row["name"],), row["dur_ns"]) for row in timed_rows(listed))
    assert found == sorted(found, key=lambda row: (row[0], -row[3], row[-1] is None, row[-1] or ""))


@checked
@given(st.lists(copies, min_size=1, max_size=8), st.lists(memsets, max_size=4))
def test_copies_and_fills_are_summed_up_by_operation(memory, copied, filled):
    found = ask(memory, "cuda_gpu_mem_time_sum", {"memcpys": copied, "memsets": filled})
    words = [(row, f"[CUDA memcpy {OPERATIONS[row['direction']]}]") for row in timed_rows(copied)]
    words += [(row, "[CUDA memset]") for row in timed_rows(filled)]
    assert set(found) == report((row["run"], (word,), row["dur_ns"]) for row, word in words)


@checked
@given(st.lists(copies, min_size=1, max_size=8), st.lists(memsets, max_size=4))
def test_sizes_are_summed_up_in_megabytes_of_three_digits(memory, copied, filled):
    found = ask(memory, "cuda_gpu_mem_size_sum", {"memcpys": copied, "memsets": filled})
    parts: dict[tuple, list[int]] = defaultdict(list)
    for row in [*copied, *filled]:
        word = f"memcpy {OPERATIONS[row['direction']]}" if "direction" in row else "memset"
        if row["size_bytes"] is not None:
            parts[row["run"], f"[CUDA {word}]"].append(row["size_bytes"])
    numbers = {
        key: (sum(sizes), len(sizes), sum(sizes) / len(sizes), median(sizes), min(sizes), max(sizes))
        for key, sizes in parts.items()
    }
    assert set(found) == {
        (run, total, Decimal(f"{total / 1e6:.3f}"), count, *(Decimal(f"{size / 1e6:.3f}") for size in rest), word)
        for (run, word), (total, count, *rest) in numbers.items()
    }


@checked
@given(st.lists(calls, min_size=1, max_size=12))
def test_runtime_and_driver_calls_are_summed_up_by_name(memory, listed):
    found = ask(memory, "cuda_api_sum", {"api_calls": listed})
    ours = [row for row in timed_rows(listed) if row["api"] != "osrt"]
    assert set(found) == report((row["run"], (row["name"],), row["dur_ns"]) for row in ours)


@checked
@given(st.lists(ranges, min_size=1, max_size=10))
def test_ranges_are_summed_up_by_style_and_text(memory, listed):
    rows = [row | {"args": row["args"] and json.dumps({"style": row["args"]})} for row in listed]
    found = ask(memory, "nvtx_sum", {"annotations": rows})
    lasts: dict[tuple, int] = defaultdict(int)
    for row in listed:
        if row["scope"] == "cpu" and row["start_ns"] is not None:
            file = (row["run"], row["source"])
            lasts[file] = max(lasts[file], row["start_ns"] + (row["dur_ns"] or 0))
    values = []
    for row in listed:
        dur = row["dur_ns"]
        if dur is None and row["start_ns"] is not None and row["args"] is not None:
            dur = lasts[row["run"], row["source"]] - row["start_ns"]
        if row["scope"] == "cpu" and row["args"] != "mark" and row["start_ns"] is not None and (dur or 0) >= 0:
            text = (f"{row['domain']}:" if row["domain"] else "") + (row["name"] or "")
            if dur is not None:
                values.append((row["run"], (STYLES[row["args"]], text), dur))
    assert set(found) == report(values)


@checked
@given(st.lists(kernels, min_size=1, max_size=8), st.lists(calls, min_size=1, max_size=8))
def test_kernels_are_joined_with_their_calls_within_process_and_file(memory, executed, called):
    found = ask(memory, "cuda_kern_exec_sum", {"kernels": executed, "api_calls": called})
    parts: dict[tuple, list[tuple]] = defaultdict(list)
    for kernel in timed_rows(executed):
        for call in timed_rows(called):
            alike = all(kernel[name] == call[name] for name in ("run", "source", "pid", "correlation"))
            if not alike or kernel["correlation"] is None or call["api"] == "osrt":
                continue
            key = (kernel["run"], kernel["rank"], kernel["pid"], call["tid"], kernel["device"])
            call_end, kernel_end = (row["start_ns"] + row["dur_ns"] for row in (call, kernel))
            times = (
                max(call_end, kernel_end) - call["start_ns"],
                call["dur_ns"],
                kernel["start_ns"] - call_end,
                kernel["dur_ns"],
            )
            parts[*key, call["name"], kernel["name"]].append(times)
    expected = set()
    for (*key, api, kernel), times in parts.items():
        whole, api_ns, queue, kernel_ns = zip(*times, strict=True)
        waited = [time for time in queue if time >= 0]
        waits = six(waited) if waited else (None,) * 4
        numbers = (*six(list(whole)), *six(list(api_ns)), *waits, *six(list(kernel_ns)))
        expected.add((*key, len(times), len(waited), *numbers, api, kernel))
    assert set(found) == expected


@pytest.mark.parametrize(
    ("durations", "expected"),
    [([7], "0.0"), ([10, 25], "10.6"), ([10, 20, 40], "15.3"), ([1, 2, 2, 4], "1.3"), ([10**15, 10**15 + 3], "2.1")],
)
def test_the_deviation_is_that_of_a_sample(memory, durations: list[int], expected: str) -> None:
    rows = [{"name": "k", "start_ns": 0, "dur_ns": dur} for dur in durations]
    lab = memory.filled({"kernels": rows})
    (row,) = lab.query("cuda_gpu_kern_sum").to_pylist()
    assert row["StdDev (ns)"] == Decimal(expected)
