"""The timeline of the report: what is embedded are the figures of the answer, and what a reader sees in a browser."""

import html
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import polars
import pytest

from tests.browser import Page, browser, needs_browser
from tests.build import build_store
from tests.report.conftest import HOSTILE
from tracelab.query import execute, library
from tracelab.report.answers import open_report_session
from tracelab.report.html import Section
from tracelab.report.page import render_page
from tracelab.report.timeline import _max_bins, _table_bins, differences, render_timeline

GEMM, NCCL = "volta_sgemm_128x32_nt", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"
GPU = {"stream": 7, "device": 0}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A window of 4,096,000 ns: 3/4 computing, of which 1/4 with communication; 1/8 copying; 1/8 idle."""
    kernels = [
        GPU | {"name": GEMM, "start_ns": 0, "dur_ns": 3_072_000},
        GPU | {"name": NCCL, "stream": 8, "start_ns": 1_024_000, "dur_ns": 1_024_000},
        GPU | {"name": HOSTILE[0], "start_ns": 4_095_999, "dur_ns": 1},
    ]
    copies = [GPU | {"direction": "HtoD", "size_bytes": 5_120_000, "start_ns": 3_072_000, "dur_ns": 512_000}]
    steps = [{"name": "ProfilerStep#4", "scope": "cpu", "pid": 1, "tid": 1, "start_ns": 500, "dur_ns": 900_000}]
    tables = {"kernels": kernels, "memcpys": copies, "annotations": steps}
    return build_store(tmp_path_factory.mktemp("timeline") / "lab", tables)


@pytest.fixture(scope="module")
def section(store: Path) -> Section:
    with open_report_session(store, ()) as asking:
        made = render_timeline(asking)
    assert made is not None
    return made


def test_what_is_embedded_are_the_figures_of_the_answer(store, section):
    run = section.data["timeline"]["runs"][0]
    columns = run["devices"][0]["columns"]
    with open_report_session(store, ()) as asking:
        answer = execute.run(asking.con, library.find("timeline"), {"bins": 4096})
    assert {name: columns[name] for name in columns} == {name: answer.column(name).to_pylist() for name in columns}
    assert run["edges"] == [0, *[1_000] * 4096]  # differences
    assert sum(columns["overlapped_comm_ns"]) == 1_024_000
    assert sum(columns["exposed_memory_ns"]) == 512_000
    assert "exposed_comm_ns" not in columns  # 0 throughout
    assert run["steps"] == [[4, 500, 900_000]]


def test_the_legend_leaves_out_what_no_device_spends_time_on(section):
    legend = re.findall(r"</i>([^<]*)", section.body)
    assert legend == ["computing alone", "communicating, hidden behind compute", "copying, exposed", "idle"]


def test_it_is_reported_where_the_time_is_spent_much_otherwise_than_on_average(section):
    """Of eight stretches of 512 µs the seventh copies throughout, the last idles for all but a nanosecond."""
    assert said(section) == [
        "From 3.584 ms on, the GPU idles for 100.00 % (512.0 µs of 512.0 µs): at least twice its average.",
        "From 3.072 ms on, the GPU has 100.0 % (512.0 µs of 512.0 µs) of exposed copies: at least twice its average.",
    ]


def test_shares_that_do_not_change_over_time_are_reported_as_such(tmp_path):
    """Computing for 100 of each 200 ns: idle for half of every stretch but the last, which ends with a kernel."""
    kernels = [GPU | {"name": GEMM, "start_ns": 200 * at, "dur_ns": 100} for at in range(80)]
    with open_report_session(build_store(tmp_path / "lab", {"kernels": kernels}), ()) as asking:
        made = render_timeline(asking)
    assert made is not None
    (told,) = said(made)
    assert told.startswith("No device has much more idle time, exposed communication or exposed copies in one stretch")


def said(section: Section) -> list[str]:
    """What the section says of its figures, without how to mend it and the rule."""
    told = section.body.partition("<ul class=query-findings>")[2].partition("</ul>")[0]
    items = re.findall(r"<li[^>]*>(.*?)(?= <span class=advice>|<li|$)", told)
    return [html.unescape(re.sub(r"<[^>]+>", "", item)).replace("\xa0", " ") for item in items]


def test_without_gpu_activity_there_is_no_section(tmp_path):
    ops = {"ops": [{"name": "op", "pid": 1, "tid": 1, "start_ns": 0, "dur_ns": 1}]}
    with open_report_session(build_store(tmp_path / "lab", ops), ()) as asking:
        assert render_timeline(asking) is None


def test_many_devices_have_fewer_bins_each():
    assert [_max_bins(devices) for devices in (1, 4, 5, 16, 48)] == [4096, 4096, 2048, 1024, 256]


def test_the_table_of_many_devices_has_fewer_bins_each():
    assert [_table_bins(devices) for devices in (1, 20, 21, 40, 48)] == [8, 8, 4, 4, 2]


def test_levels_are_embedded_as_differences_and_what_is_unknown_stays_so():
    levels = polars.Series([None, 500, 500, None, 700, 100])
    assert differences(levels).to_list() == [None, 500, 0, None, 200, -600]


@pytest.fixture(scope="module")
def seen(section: Section, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, Path]]:
    path = tmp_path_factory.mktemp("seen") / "report.html"
    path.write_text(render_page("timeline", "<header><h1>Timeline</h1></header>", [section]), encoding="utf-8")
    with browser() as chromium:
        yield chromium, path


def drawn(seen: tuple[Page, Path], **window: int) -> Page:
    chromium, path = seen
    chromium.open(path, **window)
    chromium.run("document.querySelector('.timeline').scrollIntoView()")
    chromium.until("document.querySelector('.timeline-status')?.textContent")
    return chromium


SAID = "document.querySelector('.timeline-status').textContent"
SURFACE = "document.querySelector('.timeline-band canvas')"


def ink(chromium: Page, share: float) -> list[int]:
    """The colour in the middle of the band, at that share of its width."""
    at = f"const c = {SURFACE}, x = 8 + {share} * (c.clientWidth - 16), r = devicePixelRatio;"
    return chromium.run(f"(() => {{ {at} return [...c.getContext('2d').getImageData(x * r, 32 * r, 1, 1).data] }})()")


@needs_browser
def test_a_moment_has_the_colour_of_what_the_device_did(seen):
    chromium = drawn(seen)
    color = "(name => tracelab.color(name).match(/[0-9]+/g).map(Number))"
    for share, name in ((0.1, "compute"), (0.4, "hidden"), (0.8, "memory"), (0.95, "idle")):
        assert ink(chromium, share)[:3] == chromium.run(f"{color}('{name}')")


@needs_browser
def test_pointing_reports_exact_nanoseconds_and_shares_of_the_bin(seen):
    chromium = drawn(seen)
    box = chromium.run(f"(() => {{ const b = {SURFACE}.getBoundingClientRect(); return [b.left, b.top, b.width] }})()")
    place = {"x": box[0] + 8 + 0.4 * (box[2] - 16), "y": box[1] + 20}
    chromium.call("Input.dispatchMouseEvent", type="mouseMoved", **place)
    chromium.until("!document.querySelector('.timeline-tip').hidden")
    told = chromium.run("document.querySelector('.timeline-tip').innerText")
    assert "communicating, hidden behind compute\t100 % of the bin: 4 µs (4,000 ns)" in told
    assert "kernels in flight\t2 on average, 2 at most" in told


@needs_browser
def test_the_track_of_kernels_reports_how_many_were_in_flight_at_once(seen):
    chromium = drawn(seen)
    chromium.until(f"{SURFACE}.getAttribute('aria-description')")
    said = chromium.run(f"{SURFACE}.getAttribute('aria-description')")
    assert said == "kernels in flight, up to 2; copied, up to 10 GB/s in a bin"


@needs_browser
def test_keys_zoom_to_the_finest_bins_and_back(seen):
    chromium = drawn(seen)
    chromium.run(f"{SURFACE}.focus()")
    press = "new KeyboardEvent('keydown', {{ key: '{}', bubbles: true }})"
    chromium.run(f"for (let n = 0; n < 3; n++) {SURFACE}.dispatchEvent({press.format('+')})")
    chromium.until(f"{SAID} === '512 µs shown, a bin is 1 µs'")
    chromium.run(f"for (let n = 0; n < 20; n++) {SURFACE}.dispatchEvent({press.format('+')})")
    chromium.until(f"{SAID} === '8 µs shown, a bin is 1 µs'")
    chromium.run(f"{SURFACE}.dispatchEvent({press.format('Home')})")
    chromium.until(f"{SAID} === '4.096 ms shown, a bin is 4 µs'")


@needs_browser
def test_more_than_four_devices_have_low_bands_and_tracks_on_request(seen, tmp_path):
    kernels = [GPU | {"rank": rank, "name": GEMM, "start_ns": 0, "dur_ns": 1_000} for rank in range(5)]
    with open_report_session(build_store(tmp_path / "lab", {"kernels": kernels}), ()) as asking:
        made = render_timeline(asking)
    path = tmp_path / "report.html"
    path.write_text(render_page("timeline", "<header><h1>Timeline</h1></header>", [made]), encoding="utf-8")
    chromium = drawn((seen[0], path))
    button = "[...document.querySelectorAll('.timeline-bar button')].at(-1)"
    heights = "[...document.querySelectorAll('.timeline-band canvas')].map((each) => each.clientHeight)"
    assert chromium.run(f"{button}.title") == "Show kernels in flight"
    assert chromium.run(heights) == [36] * 5
    chromium.run(f"{button}.click()")
    assert chromium.run(heights) == [36 + 18 + 26] * 5
    chromium.until(f"{SURFACE}.getAttribute('aria-description') === 'kernels in flight, up to 1'")
    chromium.run(f"{button}.click()")
    assert chromium.run(heights) == [36] * 5


@needs_browser
def test_paper_has_the_runs_that_lose_most_and_counts_the_other_runs_and_devices(seen, tmp_path):
    """Runs of 10, 1, 1, 6 and 7 devices, of which paper has 8: those of c and d, or 8 of a run that is chosen."""
    devices = {"a": 10, "b": 1, "c": 1, "d": 6, "e": 7}
    kernels = [
        GPU | {"run": run, "source": run, "rank": rank, "name": GEMM, "start_ns": 0, "dur_ns": 1_000}
        for run, ranks in devices.items()
        for rank in range(ranks)
    ]
    losses = {"a": 0.1, "b": 0.0, "c": 0.4, "d": 0.3, "e": 0.2}
    leads = {run: (SimpleNamespace(recoverable=loss, rank=9),) for run, loss in losses.items()}
    with open_report_session(build_store(tmp_path / "lab", {"kernels": kernels}), ()) as asking:
        made = render_timeline(asking, leads)
    path = tmp_path / "report.html"
    path.write_text(render_page("timeline", "<header><h1>Timeline</h1></header>", [made]), encoding="utf-8")
    chromium = drawn((seen[0], path))
    chromium.call("Emulation.setEmulatedMedia", media="print")
    chromium.run("dispatchEvent(new Event('beforeprint'))")
    visible = "[...document.querySelectorAll('{}')].filter((each) => each.offsetHeight).map((each) => each.textContent)"
    assert chromium.run(visible.format(".timeline > h4")) == ["c", "d"]
    assert chromium.run("getComputedStyle(document.getElementById('timeline')).display") == "block"
    assert len(chromium.run(visible.format(".timeline-band"))) == 7
    assert chromium.run(visible.format(".paper")) == ["3 more timelines are in the file."]
    chromium.run("(pick => { pick.hidden = true })(document.querySelector('.paper[data-all]'))")
    chromium.run("document.documentElement.classList.add('picked')")
    chromium.run("[...document.querySelectorAll('.timeline')].forEach((each, at) => { each.hidden = at > 0 })")
    ranks = [f"rank {rank} · GPU 0" for rank in (0, 1, 2, 3, 4, 5, 6, 9)]
    assert chromium.run(visible.format(".timeline-band > h4")) == ranks
    assert chromium.run(visible.format(".paper")) == ["2 more devices are in the file."]
    chromium.call("Emulation.setEmulatedMedia", media="")


@needs_browser
def test_a_phone_sees_all_of_it_and_nothing_runs_or_fails(seen):
    chromium = drawn(seen, width=360, height=740)
    assert chromium.run("document.documentElement.scrollWidth") == 360
    assert chromium.run("window.hacked") is None
    assert [each for each in chromium.events if each.get("method") == "Runtime.exceptionThrown"] == []
