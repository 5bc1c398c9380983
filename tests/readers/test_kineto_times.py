"""Times of Kineto files are exact to the last digit of their text, in every regime and every way of writing them."""

import json
import random
import tempfile
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.properties import examples
from tests.readers.small import Lab, ingest_bytes, trace

BASE = 1_711_964_646_123_456_789
"""A base whose last digits no double holds."""

INT64_MAX = 2**63 - 1


def timed(ts: str, dur: str = "1", name: str = "k") -> str:
    """A kernel whose times stand in the file exactly as written here."""
    return (
        f'{{"ph": "X", "cat": "kernel", "name": {json.dumps(name)}, "pid": 0, "tid": 7, "ts": {ts}, "dur": {dur}, '
        '"args": {"device": 0, "stream": 7}}'
    )


def times(lab: Lab) -> list[tuple[object, object]]:
    return [(row["start_ns"], row["dur_ns"]) for row in lab.rows("kernels")]


def microseconds(ns: int) -> str:
    """Three decimals, as Kineto prints them."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03}"


@pytest.mark.parametrize(
    ("ts", "base", "start_ns"),
    [
        ("1695835572943623", None, 1_695_835_572_943_623_000),
        ("1712195495534302.257", None, 1_712_195_495_534_302_257),
        ("1712195495534302.250", None, 1_712_195_495_534_302_250),
        ("1712195495534302.2", None, 1_712_195_495_534_302_200),
        ("4458676388068.751", BASE, BASE + 4_458_676_388_068_751),
        ("4503599627370.497", BASE, BASE + 4_503_599_627_370_497),
        ("0", BASE, BASE),
        ("0.001", BASE, BASE + 1),
        ("-0.001", BASE, BASE - 1),
        ("-0.001", None, -1),
        ("-1.5", None, -1_500),
        ("-1712195495534302.257", None, -1_712_195_495_534_302_257),
        ("-0.0", None, 0),
        ("9007199254740993", None, 9_007_199_254_740_993_000),
        ("9223372036854775.807", None, INT64_MAX),
        ("-9223372036854775.807", None, -INT64_MAX),
        ('"1712195495534302.257"', None, 1_712_195_495_534_302_257),
        ('"1695835572943623"', None, 1_695_835_572_943_623_000),
        ("1.5e3", None, 1_500_000),
        ("1E+3", None, 1_000_000),
        ("6e-3", None, 6),
        ("1.712195495534302257e15", None, 1_712_195_495_534_302_257),
        ("1712195495534302257e-3", None, 1_712_195_495_534_302_257),
        ("10.1234", None, 10_123),
        ("10.9996", None, 11_000),
        ("10.99960001", None, 11_000),
        ("1712195495534302.99951", None, 1_712_195_495_534_303_000),
        ("0.00049", None, 0),
        ("12345.678000000000000000", None, 12_345_678),
    ],
)
def test_start_is_exact(tmp_path: Path, ts: str, base: int | None, start_ns: int) -> None:
    top = {} if base is None else {"baseTimeNanoseconds": base}
    assert times(ingest_bytes(tmp_path, trace(timed(ts), **top))) == [(start_ns, 1_000)]


@pytest.mark.parametrize(
    ("dur", "dur_ns"),
    [
        ("0", 0),
        ("0.0", 0),
        ("0.001", 1),
        ("2.24", 2_240),
        ("97607.262", 97_607_262),
        ("812355451642", 812_355_451_642_000),
        ('"5.001"', 5_001),
        ("4503599627370.497", 4_503_599_627_370_497),
        ("1e-3", 1),
    ],
)
def test_duration_is_exact(tmp_path: Path, dur: str, dur_ns: int) -> None:
    assert times(ingest_bytes(tmp_path, trace(timed("1712195495534302.257", dur)))) == [
        (1_712_195_495_534_302_257, dur_ns)
    ]


NUMBERS_THAT_ARE_NO_TIME = ("1e30", "-1e30", "9223372036854775.808", "9223372036854775808")
LITERALS_THAT_ARE_NO_TIME = ("NaN", "Infinity", "-Infinity", "nan", "inf", "null", "true", "[1]", "{}")
TEXTS_THAT_ARE_NO_TIME = ('"nan"', '"inf"', '"N/A"', '"soon"', '""')


@pytest.mark.parametrize("bad", [*NUMBERS_THAT_ARE_NO_TIME, *LITERALS_THAT_ARE_NO_TIME, *TEXTS_THAT_ARE_NO_TIME])
def test_time_that_is_none_costs_the_value_and_not_the_event(tmp_path: Path, bad: str) -> None:
    lab = ingest_bytes(tmp_path, trace(timed("5"), timed(bad, "2"), timed("7", bad, "last"), timed("9")))
    assert times(lab) == [(5_000, 1_000), (7_000, None), (9_000, 1_000), (None, 2_000)]
    assert lab.counts == (4, 4, 0)


@pytest.mark.parametrize("bad", ["1e30", "NaN", '"soon"', "[1]"])
def test_time_that_is_none_is_reported(tmp_path: Path, bad: str) -> None:
    assert ingest_bytes(tmp_path, trace(timed("5"), timed(bad))).diagnostics() != set()


def test_time_beyond_int64_with_the_base_is_none(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(timed("9223372036854775.000"), timed("1"), baseTimeNanoseconds=BASE))
    assert times(lab) == [(BASE + 1_000, 1_000), (None, 1_000)]


def test_event_without_times_stays(tmp_path: Path) -> None:
    bare = '{"ph": "X", "cat": "kernel", "name": "bare", "pid": 0, "tid": 7, "args": {"device": 0}}'
    assert times(ingest_bytes(tmp_path, trace(timed("5"), bare))) == [(5_000, 1_000), (None, None)]


def test_base_may_follow_the_events(tmp_path: Path) -> None:
    text = f'{{"traceEvents": [{timed("1.001")}], "displayTimeUnit": "ms", "baseTimeNanoseconds": {BASE}}}'
    assert times(ingest_bytes(tmp_path, text)) == [(BASE + 1_001, 1_000)]


def test_base_counts_once_for_every_table(tmp_path: Path) -> None:
    events = [
        timed("1.001"),
        '{"ph": "X", "cat": "cpu_op", "name": "o", "pid": 9, "tid": 9, "ts": 1.001, "dur": 1}',
        '{"ph": "X", "cat": "cuda_runtime", "name": "r", "pid": 9, "tid": 9, "ts": 1.001, "dur": 1}',
        '{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": 7, "ts": 1.001, '
        '"dur": 1}',
        '{"ph": "X", "cat": "python_function", "name": "p", "pid": 9, "tid": 9, "ts": 1.001, "dur": 1}',
        '{"ph": "X", "cat": "user_annotation", "name": "u", "pid": 9, "tid": 9, "ts": 1.001, "dur": 1}',
        '{"ph": "X", "cat": "no such thing", "name": "x", "pid": 9, "tid": 9, "ts": 1.001, "dur": 1}',
        '{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 9, "tid": 9, "ts": 1.001, '
        '"args": {"Device Type": 0, "Device Id": -1, "Addr": 1, "Bytes": 4}}',
    ]
    lab = ingest_bytes(tmp_path, trace(*events, baseTimeNanoseconds=BASE))
    tables = ("kernels", "ops", "api_calls", "memcpys", "python_frames", "annotations", "other_events")
    found = [row["start_ns"] for table in tables for row in lab.rows(table)]
    assert [*found, lab.one("memory_events")["time_ns"]] == [BASE + 1_001] * 8


@pytest.mark.parametrize("where", ["args", "note"])
def test_base_inside_something_else_is_no_base(tmp_path: Path, where: str) -> None:
    event = timed("5").replace('"device": 0', '"device": 0, "baseTimeNanoseconds": 777')
    text = trace(event) if where == "args" else trace(timed("5"), note={"baseTimeNanoseconds": 777})
    assert times(ingest_bytes(tmp_path, text)) == [(5_000, 1_000)]


def test_ts_among_the_arguments_is_an_argument(tmp_path: Path) -> None:
    event = timed("1712195495534302.257").replace('"device": 0', '"ts": 1712195495534302, "dur": 8, "device": 0')
    row = ingest_bytes(tmp_path, trace(event, timed("1712195495534303.257"))).rows("kernels")[0]
    assert (row["start_ns"], row["dur_ns"]) == (1_712_195_495_534_302_257, 1_000)
    assert json.loads(row["args"]) == {"ts": 1_712_195_495_534_302, "dur": 8}


def test_ts_before_the_arguments_that_hold_one_too(tmp_path: Path) -> None:
    event = (
        '{"args": {"ts": 3, "dur": 4}, "ts": 1712195495534302.257, "dur": 2, "ph": "X", "cat": "kernel", "name": "k"}'
    )
    assert times(ingest_bytes(tmp_path, trace(event))) == [(1_712_195_495_534_302_257, 2_000)]


def test_ts_inside_a_name_is_text(tmp_path: Path) -> None:
    name = 'say "ts": 1712195495534302.257, "dur": 5'
    events = [timed("1712195495534302.257", name=name), timed("1712195495534303.257")]
    assert ingest_bytes(tmp_path, trace(*events)).kernels == [name, "k"]


def test_times_of_another_argument_keep_their_digits(tmp_path: Path) -> None:
    event = timed("1712195495534302.257").replace('"device": 0', '"external ts": 1712195495534390, "device": 0')
    assert json.loads(ingest_bytes(tmp_path, trace(event)).one("kernels")["args"]) == {
        "external ts": 1_712_195_495_534_390
    }


def regime(name: str, count: int = 1_000) -> tuple[list[str], int | None, list[int]]:
    """Texts of times, their base, and what they mean."""
    pick = random.Random(name)
    base = None
    if name == "integer":
        starts = [pick.randrange(1_695_835_572_000_000, 1_695_835_573_000_000) * 1000 for _ in range(count)]
        return [str(start // 1000) for start in starts], None, starts
    if name == "absolute":
        starts = [pick.randrange(1_712_195_495_000_000_000, 1_712_195_496_000_000_000) for _ in range(count)]
    elif name == "absolute over years":
        starts = [pick.randrange(1_400_000_000_000_000_000, 2_000_000_000_000_000_000) for _ in range(count)]
    elif name == "relative":
        base, starts = BASE, [pick.randrange(0, 10_000_000_000) for _ in range(count)]
    elif name == "relative in the window of doubles":
        base, starts = BASE, [pick.randrange(4_398_000_000_000_000, 4_504_000_000_000_000) for _ in range(count)]
    else:
        base, starts = BASE, [pick.randrange(-5_000_000_000, 5_000_000_000) for _ in range(count)]
    return [microseconds(start) for start in starts], base, [start + (base or 0) for start in starts]


REGIMES = (
    "integer",
    "absolute",
    "absolute over years",
    "relative",
    "relative in the window of doubles",
    "on both sides of the base",
)


@pytest.mark.parametrize("name", REGIMES)
def test_every_regime_is_exact(tmp_path: Path, name: str) -> None:
    texts, base, starts = regime(name)
    top = {} if base is None else {"baseTimeNanoseconds": base}
    lab = ingest_bytes(tmp_path, trace(*(timed(text) for text in texts), **top))
    assert [start for start, _ in times(lab)] == sorted(starts)


def test_regimes_mixed_in_one_file_are_exact(tmp_path: Path) -> None:
    texts, starts = [], []
    for name in ("integer", "absolute", "absolute over years"):
        some, _, meant = regime(name, 200)
        texts += some
        starts += meant
    events = [timed(text) for text in texts]
    random.Random(1).shuffle(events)
    assert [start for start, _ in times(ingest_bytes(tmp_path, trace(*events)))] == sorted(starts)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1711999999999999.999", "1712000000000000.001"),
        ("999999.999", "1000000.001"),
        ("999999999999.999", "1000000000000.001"),
        ("9.999", "10.001"),
        ("-0.001", "0.001"),
        ("1712195495534302", "1712195495534302.001"),
    ],
)
def test_digit_boundary_is_crossed_exactly(tmp_path: Path, first: str, second: str) -> None:
    lab = ingest_bytes(tmp_path, trace(timed(first), timed(second)))
    meant = [int(Decimal(text) * 1000) for text in (first, second)]
    assert [start for start, _ in times(lab)] == meant


def test_a_large_file_that_crosses_a_digit_boundary_is_exact(tmp_path: Path) -> None:
    boundary, step = 1_712_000_000_000_000_000, 1_337
    starts = [boundary + (index - 60_000) * step for index in range(120_000)]
    texts = [microseconds(start) for start in starts]
    texts[30_000] = f'"{texts[30_000]}"'
    texts[90_000] = f"{starts[90_000]}e-3"
    lab = ingest_bytes(tmp_path, trace(*(timed(text) for text in texts)))
    assert [start for start, _ in times(lab)] == starts


def test_one_event_of_another_regime_in_a_large_file_is_exact(tmp_path: Path) -> None:
    starts = [1_712_195_495_534_302_257 + index * 1_337 for index in range(40_000)]
    odd = {7: 5_001, 20_000: 12, 39_999: 999_999_999_999}
    meant = [odd.get(index, start) for index, start in enumerate(starts)]
    lab = ingest_bytes(tmp_path, trace(*(timed(microseconds(start)) for start in meant)))
    assert [start for start, _ in times(lab)] == sorted(meant)


def test_clock_is_unix_where_times_count_from_1970(tmp_path: Path) -> None:
    assert ingest_bytes(tmp_path, trace(timed("1712195495534302.257"))).source["clock"] == "unix"


def test_clock_is_unix_with_a_base(tmp_path: Path) -> None:
    assert ingest_bytes(tmp_path, trace(timed("5"), baseTimeNanoseconds=BASE)).source["clock"] == "unix"


def test_clock_is_the_sessions_where_the_base_was_cut_off(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, f'{{"schemaVersion": 1, "traceEvents": [{timed("4458676388068.751")}, ')
    assert (times(lab), lab.source["clock"]) == ([(4_458_676_388_068_751, 1_000)], "session")


def write_number(ns: int, style: str) -> str:
    """A time in µs, in one of the ways JSON allows."""
    text = microseconds(ns)
    if style == "string":
        return f'"{text}"'
    if style == "exponent":
        return f"{ns}e-3"
    if style == "short":
        whole, _, fraction = text.partition(".")
        return whole + (f".{fraction.rstrip('0')}" if fraction.rstrip("0") else "")
    return text


SEPARATORS = {"compact": (",", ":"), "usual": (", ", ": "), "wide": (" ,\n", " :  ")}


def write_event(ts: str, dur: str, layout: str, order: int) -> str:
    fields = [
        ("ph", '"X"'),
        ("cat", '"kernel"'),
        ("name", '"k"'),
        ("ts", ts),
        ("dur", dur),
        ("pid", "0"),
        ("args", '{"stream": 7, "ts": 4}'),
    ]
    fields = fields[order:] + fields[:order]
    comma, colon = SEPARATORS[layout]
    return "{" + comma.join(f'"{key}"{colon}{value}' for key, value in fields) + "}"


SPANS = {
    "unix": st.integers(1_400_000_000_000_000_000, 2_000_000_000_000_000_000),
    "window": st.integers(4_398_000_000_000_000, 4_504_000_000_000_000),
    "near": st.integers(-10_000_000, 10_000_000),
    "any": st.integers(-(2**61), 2**61),
}


@examples(60, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_times_written_any_way_read_back(data: st.DataObject) -> None:
    span = data.draw(st.sampled_from(sorted(SPANS)))
    styles = st.sampled_from(["decimal", "decimal", "short", "string", "exponent"])
    one = st.tuples(SPANS[span], st.integers(0, 2**50), styles, styles, st.integers(0, 6))
    events = data.draw(st.lists(one, min_size=1, max_size=30))
    base = data.draw(st.sampled_from([None, 0, BASE, 1_727_743_122_000_000_000]))
    layout = data.draw(st.sampled_from(sorted(SEPARATORS)))
    texts = [
        write_event(write_number(start, style), write_number(dur, dur_style), layout, order)
        for start, dur, style, dur_style, order in events
    ]
    top = {} if base is None else {"baseTimeNanoseconds": base}
    with tempfile.TemporaryDirectory() as folder:
        lab = ingest_bytes(Path(folder), trace(*texts, **top))
        found = sorted(times(lab))
    assert found == sorted((start + (base or 0), dur) for start, dur, *_ in events)


@pytest.mark.parametrize(
    ("number", "start_ns"),
    [("1e99999999999999999999", None), ("-1e9999999999999999999", None), ("1e-9999999999999999999", 0)],
)
def test_an_exponent_of_any_length_costs_its_value_only(tmp_path: Path, number: str, start_ns: int | None) -> None:
    irregular = f'{{"ph":"X","cat":"cpu_op","name":"a","ts":{number},"x":nan,"args":{{"device":{number}}}}}'
    lab = ingest_bytes(tmp_path, trace(irregular, timed("1")))
    (op,) = lab.rows("ops")
    assert (lab.counts, op["start_ns"], op["args"]) == ((2, 2, 0), start_ns, f'{{"device":{number}}}')
