"""A run that is picked in a real browser: what is left are its own sentences, rows, parts and findings."""

from collections.abc import Iterator

import pytest

from tests.browser import Page, browser, needs_browser
from tests.build import build_store
from tests.report.conftest import GPU
from tracelab.report.document import report

pytestmark = needs_browser

BUSY = tuple(f"busy{at:02}" for at in range(13))
TEXTS = "map(each => each.textContent.replaceAll('\\u00a0', ' '))"
SAID = f"[...document.querySelectorAll('#{{}} .query-findings:not([hidden]) li')].{TEXTS}"
SHOWN = "[...document.querySelectorAll('article.part:not([hidden])')].map(part => part.id)"


def kernels(run: str, waits_ns: int) -> list[dict[str, object]]:
    gpu = GPU | {"run": run, "source": run, "name": "gemm"}
    return [gpu | {"start_ns": 0, "dur_ns": 500}, gpu | {"start_ns": 500 + waits_ns, "dur_ns": 500 - waits_ns}]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Thirteen runs on GPUs, of which the one at 7 idles, the cell of a sweep, and one on a processor with steps."""
    folder = tmp_path_factory.mktemp("picking")
    cpu = {"run": "cpu", "source": "cpu", "pid": 1, "tid": 1}
    tables = {
        "kernels": [row for at, run in enumerate(BUSY) for row in kernels(run, 400 if at == 7 else 1)],
        "ops": [cpu | {"name": "aten::mm", "start_ns": 0, "dur_ns": 50}],
        "annotations": [cpu | {"name": "ProfilerStep#3", "scope": "cpu", "start_ns": 0, "dur_ns": 90}],
        "diagnostics": [
            {
                "run": run,
                "source": run,
                "severity": "warning",
                "code": "made_up",
                "count": 1,
                "message": f"About {run}.",
            }
            for run in BUSY[:3]
        ],
    }
    written = folder / "report.html"
    written.write_text(report(build_store(folder / "lab", tables)), encoding="utf-8")
    with browser() as chromium:
        chromium.open(written)
        yield chromium


@pytest.fixture
def page(opened: Page) -> Page:
    """The page with nothing picked."""
    pick(opened, "")
    return opened


def pick(page: Page, run: str) -> None:
    page.run(
        f"(each => {{ each.value = '{run}'; each.dispatchEvent(new Event('change')) }})(document.getElementById('run'))"
    )


def test_of_more_runs_than_have_a_summary_the_sentences_are_those_of_the_one_that_is_picked(page: Page) -> None:
    assert page.run("document.querySelectorAll('#run option').length") == 15
    pick(page, "busy07")
    assert page.run(SAID.format("gpu_breakdown")) == [
        "busy07 is idle for 40.00 % (400 ns of 1.000 µs) of its window. Symptom of finding 1 of the summary: 40.00 % "
        "of the run's measured time. See the causes of idle time below: a late host, waiting for other work, or "
        "overhead. "
        "Why? Rule: idle_ns > 0.2 * nullif(window_ns, 0), true for 1 of 1 GPU. SQL"
    ]
    pick(page, "busy08")
    assert page.run(SAID.format("gpu_breakdown")) == [
        "No device idles for more than 20 % of its window, or has exposed communication or exposed copies for more "
        "than 10 % of it."
    ]
    assert "busy07" not in page.run(
        "[...document.querySelectorAll('.query-findings:not([hidden])')].map(e => e.textContent).join()"
    )


def test_what_the_recording_cannot_tell_is_not_called_fine(page: Page) -> None:
    pick(page, "busy08")
    (said,) = page.run(SAID.format("idle_causes"))
    assert said.startswith("No cause leaves a device idle")
    pick(page, "busy07")
    (said,) = page.run(SAID.format("idle_causes"))
    assert said.startswith(
        "busy07 idles for 40.00 % (400 ns of 1.000 µs) of its window before work whose launch is not"
    )
    pick(page, "cpu")
    assert page.run(SAID.format("data_loader_wait"))[0].startswith("How long the steps wait for data is not known")


def test_parts_without_the_run_go_with_their_headings_and_links_and_are_named(page: Page) -> None:
    pick(page, "")
    everything = page.run(SHOWN)
    pick(page, "cpu")
    on_the_cpu = ["critical_path", "critical_path_timeline", "cpu_breakdown", "op_summary", "data_loader_wait"]
    assert page.run(SHOWN) == [*on_the_cpu, "recordings"]
    links = page.run("[...document.querySelectorAll('nav li:not([hidden])')].map(each => each.textContent)")
    assert links == ["Summary", "Health of the data", "Where the time goes", "CPU side", "Recordings", "No data"]
    told = page.run("document.getElementById('absent').textContent")
    assert "no data of this run" in told and "GPU time breakdown · " in told and "--run cpu" in told
    pick(page, "")
    assert page.run(SHOWN) == everything
    assert page.run("document.getElementById('absent').textContent") == ""


def test_findings_and_their_count_are_those_of_the_run(page: Page) -> None:
    health = "document.getElementById('section-health').innerText"
    assert "3 warnings" in page.run(health)
    pick(page, "busy01")
    assert "1 warning" in page.run(health)
    assert "About busy01." in page.run(health)
    assert "About busy02." not in page.run(health)
    pick(page, "busy09")
    assert "warning" not in page.run(health)


def test_a_table_counts_the_rows_of_the_run_also_where_it_was_not_opened(page: Page) -> None:
    pick(page, "busy05")
    assert page.run("document.querySelector('#kernel_summary .data summary').textContent") == "Table: 1 row of this run"
    pick(page, "")
    assert page.run("document.querySelector('#kernel_summary .data summary').textContent") == "Table: 13 rows"
    assert page.problems() == []
