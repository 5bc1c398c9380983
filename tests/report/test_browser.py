"""The report in a real browser: it draws, sorts, filters and fits, asks the network for nothing, and runs no name."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import PROGRAM, Page, browser, needs_browser
from tests.build import build_store
from tests.report.conftest import GPU, HOSTILE
from tracelab.report.document import report

pytestmark = needs_browser

KERNELS = "document.querySelector('#kernel_summary table')"
NAMES = f"[...{KERNELS}.tBodies[0].rows].filter(row => !row.hidden).map(row => row.cells[3].textContent)"
HEAD = f"[...{KERNELS}.tHead.rows[0].cells].find(head => head.textContent === '{{}}')"


@pytest.fixture(scope="module")
def path(page: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("browser") / "report.html"
    written.write_text(page, encoding="utf-8")
    return written


@pytest.fixture(scope="module")
def chromium() -> Iterator[Page]:
    assert PROGRAM is not None
    with browser() as page:
        yield page


@pytest.fixture
def opened(chromium: Page, path: Path) -> Page:
    chromium.open(path)
    for fold in ("details.data", "details.fold"):
        chromium.run(f"{KERNELS}.closest('{fold}').open = true")
    return chromium


def see(page: Page, part: str) -> None:
    """Scroll to a part, and wait for its first chart."""
    page.run(f"document.querySelectorAll('#{part} > details.fold').forEach(each => each.open = true)")
    page.run(f"document.getElementById('{part}').scrollIntoView()")
    page.until(f"document.querySelector('#{part} .drawing svg')")


def test_no_error_no_warning_and_no_request_but_the_file(opened: Page, path: Path) -> None:
    see(opened, "memory_timeline")
    opened.run("scrollTo(0, document.body.scrollHeight)")
    assert opened.problems() == []
    assert opened.requests() == [path.resolve().as_uri()]


def test_parts_are_folded_until_a_link_leads_to_them_or_all_are_unfolded(chromium: Page, path: Path) -> None:
    chromium.open(path)
    folded = "[...document.querySelectorAll('details.fold:not([open])')].map(each => each.parentElement.id)"
    assert "gpu_breakdown" not in chromium.run(folded)
    assert "memory_timeline" in chromium.run(folded)
    chromium.run("location.hash = '#memory_timeline'")
    chromium.until("document.querySelector('#memory_timeline > details.fold').open")
    chromium.run("document.getElementById('unfold').click()")
    assert chromium.run(folded) == []


def test_every_chart_is_drawn_when_it_is_seen(opened: Page) -> None:
    figures = "[...document.querySelectorAll('figure[data-chart]')]"
    parts = opened.run(f"{figures}.map(figure => figure.closest('article').id)")
    assert {"gpu_breakdown", "kernel_summary", "memcpy_throughput", "memory_timeline"} <= set(parts)
    for part in parts:
        see(opened, part)
        assert opened.run(f"document.querySelectorAll('#{part} .drawing svg path').length") > 0, part


def test_a_heading_sorts_by_exact_values_and_back(opened: Page) -> None:
    asked = opened.run(NAMES)
    button = HEAD.format("dur_ns") + ".querySelector('button')"
    opened.run(f"{button}.click()")
    opened.run(f"{button}.click()")
    assert opened.run(HEAD.format("dur_ns") + ".getAttribute('aria-sort')") == "ascending"
    values = opened.run(f"[...{KERNELS}.tBodies[0].rows].map(row => tracelab.numberOf(row.cells[5]))")
    assert values == sorted(values)
    assert values[0] == 10_000
    opened.run(f"{button}.click()")
    assert opened.run(NAMES) == asked


def test_the_keyboard_sorts_too(opened: Page) -> None:
    opened.run(HEAD.format("kernel") + ".querySelector('button').focus()")
    opened.press("Enter")
    assert opened.run(HEAD.format("kernel") + ".getAttribute('aria-sort')") == "ascending"
    assert opened.run(NAMES)[-1] == "last"


def test_the_filter_hides_rows_and_counts_the_others(opened: Page) -> None:
    opened.run("document.querySelector('#kernel_summary .filter input').focus()")
    opened.type("gemm second")
    assert opened.run(NAMES) == ["gemm"]
    assert opened.run("document.querySelector('#kernel_summary .filter span').textContent") == " 1 of 12 rows"


def test_a_picked_run_is_the_only_one_shown(opened: Page) -> None:
    see(opened, "gpu_breakdown")
    opened.run(
        "(run => { run.value = 'second'; run.dispatchEvent(new Event('change')) })(document.getElementById('run'))"
    )
    assert len(opened.run(NAMES)) == 6
    labels = opened.run(
        "[...document.querySelectorAll('#gpu_breakdown .drawing svg text')].map(text => text.textContent)"
    )
    assert not [label for label in labels if "first" in label]
    said = opened.run(
        "document.querySelector('#gpu_breakdown .query-findings:not([hidden])').textContent.replace(/\\s+/g, ' ')"
    )
    assert "45.00 % (3.150 s of 7.000 s)" in said or "second" in said


def test_names_are_shown_and_never_run(opened: Page) -> None:
    assert set(HOSTILE[:3]) <= set(opened.run(NAMES))
    see(opened, "kernel_summary")
    drawn = opened.run("document.querySelector('#kernel_summary .drawing svg').textContent")
    assert "window.hacked" in drawn
    box = opened.run(
        "(box => ({x: box.x, y: box.y, width: box.width, height: box.height}))"
        "(document.querySelector('#kernel_summary .drawing').getBoundingClientRect())"
    )
    for at in range(6):
        opened.hover(box["x"] + 0.6 * box["width"], box["y"] + 20 + 27 * at)
        opened.until("document.querySelector('.tip')")
    assert opened.run("document.querySelectorAll('.tip img, .tip script, svg img, svg script').length") == 0
    assert opened.run("typeof window.hacked") == "undefined"


def test_a_tip_has_the_exact_value(opened: Page) -> None:
    see(opened, "gpu_breakdown")
    box = opened.run("document.querySelector('#gpu_breakdown .drawing').getBoundingClientRect().toJSON()")
    opened.hover(box["x"] + 0.6 * box["width"], box["y"] + 50)
    opened.until("document.querySelector('.tip')")
    assert "(450,000 ns)" in opened.run("document.querySelector('.tip').textContent")


@pytest.mark.parametrize("width", [360, 768, 1920])
def test_nothing_is_wider_than_the_window(chromium: Page, path: Path, width: int) -> None:
    chromium.open(path, width=width, height=740)
    chromium.run("document.querySelectorAll('details').forEach(each => each.open = true)")
    for part in ("gpu_breakdown", "kernel_summary", "memory_timeline"):
        see(chromium, part)
    assert chromium.run("document.scrollingElement.scrollWidth") <= width


def test_a_phone_shows_all_values_of_each_metric(chromium: Page, path: Path) -> None:
    chromium.open(path, width=360, height=740)
    cells = "[...document.querySelectorAll('#verdict > .scroll td')]"
    edges = chromium.run(f"{cells}.map(cell => cell.getBoundingClientRect().right)")
    labels = chromium.run(f"{cells}.slice(1, 4).map(cell => getComputedStyle(cell, '::before').content)")
    assert edges
    assert max(edges) <= 360
    assert labels == ['"base"', '"candidate"', '"change"']
    box = "getComputedStyle(document.querySelector('#verdict > .scroll'))"
    assert chromium.run(f"[{box}.overflowY, {box}.maxHeight]") == ["visible", "none"]


def test_charts_follow_a_dark_theme(chromium: Page, path: Path) -> None:
    fills = []
    for dark in (False, True):
        chromium.open(path, dark=dark)
        see(chromium, "gpu_breakdown")
        fills.append(
            chromium.run(
                "[getComputedStyle(document.body).backgroundColor,"
                " document.querySelector('svg text').getAttribute('fill')]"
            )
        )
    assert fills[0][0] == "rgb(255, 255, 255)"
    assert fills[0] != fills[1]


def test_paper_has_the_charts_that_were_never_seen(chromium: Page, path: Path, tmp_path: Path) -> None:
    chromium.open(path)
    assert chromium.run("document.querySelector('#memory_timeline .drawing svg')") is None
    chromium.run("document.querySelector('#memory_timeline > details.fold').open = true")
    unfolded = "document.querySelectorAll('details[open]').length"
    before = chromium.run(unfolded)
    chromium.printed(tmp_path / "report.pdf")
    assert chromium.run("Boolean(document.querySelector('#memory_timeline .drawing svg'))")
    assert chromium.run(unfolded) == before
    printed = (tmp_path / "report.pdf").read_bytes()
    assert printed.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type /Page\b", printed)) <= 20
    assert chromium.problems() == []


PRINTED = "[...{}.tBodies[0].rows].filter(row => getComputedStyle(row).display !== 'none').length"


def test_paper_states_where_tables_and_charts_are_cut_and_shows_all_columns_of_tables(
    chromium: Page, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kernels = [
        GPU | {"device": at % 32, "name": f"k{at}", "grid_x": at, "start_ns": 20 * at, "dur_ns": 10} for at in range(60)
    ]
    written = tmp_path_factory.mktemp("paper") / "report.html"
    written.write_text(report(build_store(written.parent / "lab", {"kernels": kernels})), encoding="utf-8")
    chromium.open(written, width=700, dark=True)
    for part in ("details.fold", "details.sql", "details.data"):
        chromium.run(f"document.querySelector('#kernel_summary {part}').open = true")
    chromium.call("Emulation.setEmulatedMedia", media="print")
    chromium.run("dispatchEvent(new Event('beforeprint'))")
    cut = "getComputedStyle(document.querySelector('#{} details.data'), '::after').content"
    assert chromium.run(PRINTED.format(KERNELS)) == 40
    assert "Only the first 40 of these rows" in chromium.run(cut.format("kernel_summary"))
    assert chromium.run(PRINTED.format("document.querySelector('#recordings table')")) == 1
    assert chromium.run(cut.format("recordings")) == "none"
    assert (
        chromium.run("Math.max(...[...document.querySelectorAll('.data table')].map(each => each.scrollWidth))") <= 700
    )
    assert chromium.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert chromium.run("tracelab.color('ink')") == "rgb(27, 31, 36)"
    visible = "[...document.querySelectorAll('figure .paper')].filter(each => each.offsetHeight)"
    notes = f"{visible}.map(each => each.textContent)"
    assert "2 more bars are in the file." in chromium.run(notes)
    shown = "document.querySelector('#{} details.{}').offsetHeight > 0"
    assert chromium.run(shown.format("kernel_summary", "sql"))
    assert not chromium.run(shown.format("recordings", "sql"))
    chromium.call("Emulation.setEmulatedMedia", media="")


def test_a_reader_of_screens_finds_landmarks_headings_and_names(opened: Page) -> None:
    assert opened.run("['header', 'nav', 'main'].map(name => document.querySelectorAll(name).length)") == [1, 1, 1]
    levels = opened.run("[...document.querySelectorAll('h1, h2, h3, h4')].map(head => Number(head.tagName[1]))")
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    named = "[...document.querySelectorAll('[role=img], [role=region], nav')].every(each => each.ariaLabel)"
    assert opened.run(named)
    assert opened.run(
        "[...document.querySelectorAll('table')].every(table => !table.closest('.data') || table.caption)"
    )
    assert opened.run("document.querySelectorAll('select, input').length") == opened.run(
        "document.querySelectorAll('label select, label input').length"
    )
