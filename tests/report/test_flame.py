"""Flame graphs of the report: what is embedded, and what the script draws of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.browser import PROGRAM, Page, browser, needs_browser
from tests.build import build_store
from tests.report.few_queries import report_of
from tracelab.report.flame import MOST_FRAMES, embed_figures, embed_tree
from tracelab.report.html import Section
from tracelab.report.page import render_page

STATUS = "document.querySelector('.flame .timeline-status').textContent"
TIP = "document.querySelector('.flame .timeline-tip')"
CANVAS = "document.querySelector('.flame canvas')"
WIDE, DEEP = 256, 255
"""A root with so many children, each the top of a chain of so many frames in all: 65,536 frames with the root."""


def tree(*rows: tuple[int | None, str, int, int]) -> pa.Table:
    """Return an answer of `stacks`: parent, frame, own and total of each node."""
    named = [dict(zip(("parent", "frame", "own", "total"), row, strict=True)) for row in rows]
    return pa.Table.from_pylist([{"node": place + 1} | row for place, row in enumerate(named)])


def test_frames_that_cost_least_become_one_and_none_of_the_cost_is_lost() -> None:
    table = tree((None, "main", 1, 60), (1, "a", 30, 50), (1, "b", 4, 9), (2, "c", 20, 20), (3, "d", 5, 5))
    embedded = embed_tree(table, most=3)
    assert embedded == {
        "names": ["main", "a", "c", "(2 smaller frames)"],
        "frames": [0, 1, 2, 3],
        "parents": [-1, 0, 1, 0],
        "own": [1, 30, 20, 9],
        "merged": 2,
    }


def test_a_report_without_python_frames_has_no_flame_graph(tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", {"ops": [{"name": "aten::mm", "start_ns": 0, "dur_ns": 9}]})
    assert "json-flame" not in report_of((), store)


def test_a_report_has_flame_graphs_of_stacks_and_of_modules(tmp_path: Path) -> None:
    thread = {"pid": 1, "tid": 1}
    frames = [("train.py(3): step", 0, 100), ("nn.Module: Net_0", 10, 80), ("nn.Module: Linear_0", 20, 30)]
    rows = [thread | {"name": name, "start_ns": start, "dur_ns": dur} for name, start, dur in frames]
    page = report_of((), build_store(tmp_path / "lab", {"python_frames": rows}))

    def block(name: str) -> Any:
        return json.loads(page.partition(f'id="json-{name}">')[2].partition("</script>")[0])

    (figure,) = block("flame")
    assert [(each["title"], each["rows"]) for each in figure["measures"]] == [
        ("time on the CPU", 3),
        ("time on the CPU, by module", 2),
    ]
    trees = [block(each["block"]) for each in figure["measures"]]
    assert [([each["names"][name] for name in each["frames"]], each["parents"], each["own"]) for each in trees] == [
        (["train.py(3): step", "nn.Module: Net_0", "nn.Module: Linear_0"], [-1, 0, 1], [20, 50, 30]),
        (["Net_0", "Linear_0"], [-1, 0], [50, 30]),
    ]


def test_a_report_states_how_much_of_the_time_on_the_cpu_is_waiting(tmp_path: Path) -> None:
    """A thread works for 60 of 100 ns; another one waits for 60 ns for a lock and 20 for the GPU, and sleeps for 20."""
    frames = [
        (1, "train.py(3): step", 0, 100),
        (1, "<built-in method poll of select.poll object at 0x7f01>", 60, 40),
        (2, "loader.py(9): run", 0, 100),
        (2, "threading.py(359): wait", 0, 60),
        (2, "<built-in method acquire of _thread.lock object at 0x7f02>", 0, 60),
        (2, "torch/cuda/__init__.py(990): synchronize", 60, 20),
        (2, "<built-in function _cuda_synchronize>", 65, 10),
        (2, "<built-in function sleep>", 80, 20),
        (2, "<built-in method acquire of Pool object at 0x7f03>", 90, 0),
    ]
    rows = [{"pid": 1, "tid": tid, "name": name, "start_ns": start, "dur_ns": dur} for tid, name, start, dur in frames]
    page = report_of((), build_store(tmp_path / "lab", {"python_frames": rows}))
    note = page.partition("<p class=cut>Of ")[2].partition("</p>")[0]
    assert note == (
        "200 ns on all threads, 140 ns (70 %) are waits for locks, times, processes, data and GPUs, most in "
        "&lt;built-in method acquire of _thread.lock object&gt;. Threads that sleep, as those of data loaders, count "
        "like any other. Copies that wait, as those of .item(), count as work: sync_points has them."
    )


def largest() -> dict[str, Any]:
    """Return a figure with as many frames as a page holds: the leaf below child n costs n + 1."""
    frames, parents, own = [0], [-1], [0]
    for child in range(WIDE):
        above = 0
        for depth in range(DEEP if child else DEEP + WIDE - 1):
            frames.append(1 + (child + depth) % 500)
            parents.append(above)
            own.append(0)
            above = len(own) - 1
        own[above] = child + 1
    names = ["main", *(f"file.py({number}): f{number}" for number in range(500))]
    content = {"names": names, "frames": frames, "parents": parents, "own": own, "merged": 7}
    return {"run": "r", "rank": 0, "measures": [{"measure": "cpu", "title": "CPU", "unit": "ns"} | content]}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Page]:
    assert PROGRAM is not None
    with browser() as page:
        yield page


@pytest.fixture
def opened(chromium: Page, tmp_path: Path) -> Page:
    figure = largest()
    leaf = {"names": ["leaf"], "frames": [0], "parents": [-1], "own": [5], "merged": 0}
    small = figure | {"measures": [{"measure": "cpu", "title": "CPU", "unit": "ns"} | leaf]}
    assert len(figure["measures"][0]["own"]) == MOST_FRAMES
    drawing = '<figure class="flame" data-flame="{}"><div class="flame-drawing"></div></figure>'
    body = "".join(map(drawing.format, range(2)))
    path = tmp_path / "flame.html"
    section = Section("stacks", "Flame graphs", body, embed_figures([figure, small]), ("flame.js",))
    path.write_text(render_page("t", "", [section]), encoding="utf-8")
    chromium.open(path)
    chromium.until(CANVAS)
    return chromium


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.run(f"{CANVAS}.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}'}}))")


@needs_browser
def test_as_many_frames_as_a_page_holds_are_drawn_zoomed_and_searched_within_a_second(opened: Page) -> None:
    whole = WIDE * (WIDE + 1) // 2
    assert opened.run(STATUS).startswith(f"{whole / 1000:.4g} µs ({whole:,} ns); ")
    assert "7 smaller frames are not in this page" in opened.run(STATUS)
    zoom = "(() => { const start = performance.now(); {}; return performance.now() - start; })()"
    press(opened, "ArrowDown", "ArrowDown", "ArrowRight")
    took_ms = opened.run(zoom.replace("{}", f"{CANVAS}.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Enter'}}))"))
    assert took_ms < 1000
    assert opened.run(STATUS).startswith("2 ns (2 ns) in file.py(1): f1; ")
    search = "const field = document.querySelector('.flame input'); field.value = 'main'; "
    took_ms = opened.run(zoom.replace("{}", f"{search} field.dispatchEvent(new Event('input'))"))
    assert took_ms < 1000
    assert f"found: {whole / 1000:.4g} µs ({whole:,} ns), 100 %" in opened.run(STATUS)
    press(opened, "Escape")
    assert opened.run(STATUS).startswith(f"{whole / 1000:.4g} µs ({whole:,} ns) in main; ")
    press(opened, "Home")
    assert opened.problems() == []


@needs_browser
def test_a_search_takes_text_or_a_regular_expression(opened: Page) -> None:
    whole = WIDE * (WIDE + 1) // 2
    of_f1 = 1 + 2 + sum(range(248, 257))  # chains 0, 1 and 247 to 255 have f1
    for words, found_ns in (("absent|^MAIN$", whole), ("^ain", 0), (": f1$", of_f1), ("py(1): f1", of_f1), ("f1(", 0)):
        search = "const field = document.querySelector('.flame input'); "
        opened.run(f"(() => {{ {search} field.value = '{words}'; field.dispatchEvent(new Event('input')) }})()")
        assert f"({found_ns:,} ns)" in opened.run(STATUS).partition("found: ")[2], words


@needs_browser
def test_a_graph_is_read_and_drawn_when_it_is_near(opened: Page) -> None:
    canvases = "document.querySelectorAll('.flame canvas').length"
    assert opened.run(canvases) == 1
    opened.run("document.querySelector('[data-flame=\"1\"]').scrollIntoView()")
    opened.until(f"{canvases} === 2")
    assert opened.run(STATUS.replace(".flame", '[data-flame="1"]')) == "5 ns (5 ns)"
    assert opened.problems() == []


@needs_browser
def test_the_mouse_shows_exact_figures_and_zooms(opened: Page) -> None:
    box = opened.run(f"(({{left, top, width}}) => [left, top, width])({CANVAS}.getBoundingClientRect())")
    last = WIDE  # the widest child is the last one
    x, y = box[0] + box[2] - 2, box[1] + 18 + 5
    opened.hover(x, y)
    opened.until(f"!{TIP}.hidden")
    shown = opened.run(f"{TIP}.textContent")
    assert f"{last} ns ({last} ns)" in shown
    opened.run(f"{CANVAS}.dispatchEvent(new MouseEvent('click', {{clientX: {x}, clientY: {y}, bubbles: true}}))")
    assert opened.run(STATUS).startswith(f"{last} ns ({last} ns) in file.py({last - 1}): f{last - 1}")
