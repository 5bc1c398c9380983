"""Charts of the report in a real browser: axes that compare, tooltips that fit, and every line told at an instant."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Page, browser, needs_browser
from tests.build import build_store
from tests.report.conftest import GPU
from tests.report.few_queries import report_of

pytestmark = needs_browser

LONG = "a-run-whose-name-is-as-long-as-a-name-of-a-run-may-be-" + "0123456789" * 4
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks: their longest kernels take 87 and 60 µs; the second allocates at other moments than the first."""
    kernels = [
        GPU
        | {"run": LONG, "rank": rank, "name": f"{name}{at}", "start_ns": 100_000 * at, "dur_ns": longest // (at + 1)}
        for rank, longest in ((0, 87_000), (1, 60_000))
        for at, name in enumerate(("gemm", HOSTILE, "核", *["k"] * 20))
    ]
    kernels += [
        GPU
        | {"run": LONG, "rank": rank, "stream": 8, "name": "ncclDevKernel_AllReduce()", "start_ns": 0, "dur_ns": 7_919}
        for rank in (0, 1)
    ]
    events = [
        {"run": LONG, "rank": rank, "source": f"rank{rank}", "tid": 1, "device": 0, "time_ns": time_ns}
        | {"address": time_ns, "size_bytes": 64, "allocated_bytes": allocated}
        for rank, time_ns, allocated in ((0, 0, 1_000), (0, 100, 2_000), (1, 0, 5_000), (1, 60, 6_000), (1, 100, 7_000))
    ]
    steps = [
        {"run": LONG, "rank": rank, "scope": "cpu", "name": f"ProfilerStep#{step}", "start_ns": at, "dur_ns": 1_000_000}
        for rank in (0, 1)
        for step, at in ((0, 0), (1, 1_000_000))
    ]
    new = GPU | {"run": "other", "source": "other", "start_ns": 0, "dur_ns": 5}
    other = [new | {"name": "gemm"}]
    copies = [new | {"direction": "HtoD", "size_bytes": 8}]
    folder = tmp_path_factory.mktemp("drawings")
    tables = {"kernels": [*kernels, *other], "memcpys": copies, "memory_events": events, "annotations": steps}
    drawn = ("kernel_summary", "memory_timeline", "nccl_share", "run_difference")
    page = report_of(drawn, build_store(folder / "lab", tables))
    (folder / "report.html").write_text(page, encoding="utf-8")
    return folder / "report.html"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Page]:
    with browser() as page:
        yield page


def see(page: Page, part: str) -> None:
    page.run(f"document.querySelectorAll('#{part} > details.fold').forEach(each => each.open = true)")
    page.run(f"document.getElementById('{part}').scrollIntoView()")
    page.until(f"document.querySelector('#{part} .drawing svg')")


def option(page: Page, part: str, what: str) -> list[object]:
    """Something of the options of each drawing of a part."""
    drawings = f"[...document.querySelectorAll('#{part} .drawing')].filter(each => echarts.getInstanceByDom(each))"
    found = page.run(f"{drawings}.map(each => (option => {what})(echarts.getInstanceByDom(each).getOption()))")
    assert isinstance(found, list)
    return found


def test_devices_of_a_run_stand_on_one_axis(chromium: Page, path: Path) -> None:
    chromium.open(path, height=3000)
    see(chromium, "kernel_summary")
    assert option(chromium, "kernel_summary", "option.xAxis[0].max ?? null") == [100_000, 100_000, None]


def test_losses_and_gains_have_one_scale_and_differ_by_hatch_and_sign(chromium: Page, path: Path) -> None:
    chromium.open(path, height=3000)
    see(chromium, "run_difference")
    assert len(set(map(tuple, option(chromium, "run_difference", "[option.xAxis[0].min, option.xAxis[0].max]")))) == 1
    drawn = "option.series[0].data.filter(each => each.value).map(each => [each.value > 0, !!each.itemStyle.decal])"
    signs = [bar for panel in option(chromium, "run_difference", drawn) for bar in panel]
    assert [True, True] in signs
    assert [False, False] in signs
    assert {tuple(each) for each in signs} == {(True, True), (False, False)}
    text = chromium.run("document.getElementById('run_difference').textContent")
    assert "▲" in text
    assert "▼" in text


def test_a_loss_has_the_minus_sign_of_the_texts(chromium: Page, path: Path) -> None:
    chromium.open(path)
    assert chromium.run("[tracelab.readable(-38.36e6, 'ns'), tracelab.digits(1234.5)]") == ["−38.36 ms", "1,235"]


def test_a_finding_leads_to_its_step_in_the_timeline(chromium: Page, path: Path) -> None:
    chromium.open(path, height=3000)
    link = "Object.assign(document.createElement('a'), { href: '#timeline', id: 'link' })"
    chromium.run(f"document.getElementById('section-summary').append({link})")
    chromium.run(f"Object.assign(document.getElementById('link').dataset, {{ place: '{LONG}', step: '1', rank: '1' }})")
    chromium.run("document.getElementById('link').click()")
    chromium.until("document.querySelector('.timeline-status')?.textContent.startsWith('1.5 ms shown')")


def test_the_sum_of_the_others_is_grey_and_names_itself(chromium: Page, path: Path) -> None:
    chromium.open(path)
    see(chromium, "kernel_summary")
    last = "option.series[0].data.at(-1)"
    rest = sum(87_000 // (at + 1) for at in range(14, 23))  # 14 of 23 are longer than the collective
    shown = option(chromium, "kernel_summary", f"[option.yAxis[0].data.at(-1), {last}.value ?? {last}]")[0]
    assert shown == ["others (9 kernels)", rest]


def test_a_sum_is_exact_where_it_is_pointed_at(chromium: Page, path: Path) -> None:
    chromium.open(path, height=1200)
    see(chromium, "kernel_summary")
    box = chromium.run("document.querySelector('#kernel_summary .drawing').getBoundingClientRect().toJSON()")
    chromium.hover(box["x"] + 0.6 * box["width"], box["y"] + box["height"] - 66)
    chromium.until("document.querySelector('.tip')")
    rest = sum(87_000 // (at + 1) for at in range(14, 23))
    told = "dur_ns" + f"{rest / 1_000:.2f} µs ({rest:,} ns)"
    assert chromium.run("document.querySelector('.tip').innerText.replaceAll(/\\s*\\n\\s*|\\t/g, '')") == (
        f"others (9 kernels){told}"
    )


def test_a_name_is_whole_and_in_its_own_script(chromium: Page, path: Path) -> None:
    chromium.open(path)
    see(chromium, "kernel_summary")
    assert {f"{HOSTILE}1", "核2"} <= set(option(chromium, "kernel_summary", "option.yAxis[0].data")[0])


def test_every_rank_reports_what_it_holds_at_an_instant(chromium: Page, path: Path) -> None:
    chromium.open(path, height=1200)
    see(chromium, "memory_timeline")
    instance = "echarts.getInstanceByDom(document.querySelector('#memory_timeline .drawing'))"
    x = chromium.run(f"{instance}.convertToPixel({{seriesIndex: 0}}, [60, 2000])[0]")
    box = chromium.run("document.querySelector('#memory_timeline .drawing').getBoundingClientRect().toJSON()")
    chromium.hover(box["x"] + x, box["y"] + 0.5 * box["height"])
    chromium.until("document.querySelector('.tip')")
    told = chromium.run("[...document.querySelectorAll('.tip tr')].map(row => row.cells[1].textContent)")
    assert told == ["1.000 kB (1,000 bytes)", "6.000 kB (6,000 bytes)"]


@pytest.mark.parametrize("part", ["nccl_share", "kernel_summary"])
def test_a_tip_stays_on_a_phone(chromium: Page, path: Path, part: str) -> None:
    chromium.open(path, width=360, height=740)
    see(chromium, part)
    box = chromium.run(f"document.querySelector('#{part} .drawing').getBoundingClientRect().toJSON()")
    chromium.hover(box["x"] + 0.7 * box["width"], box["y"] + 60)
    chromium.until("document.querySelector('.tip')")
    told = chromium.run(
        "(tip => { const box = tip.parentElement.getBoundingClientRect(), table = tip.querySelector('table');"
        " return [box.left >= 0 && box.right <= innerWidth, tip.scrollWidth <= tip.clientWidth,"
        " table.getBoundingClientRect().right <= box.right] })(document.querySelector('.tip'))"
    )
    assert told == [True, True, True]
