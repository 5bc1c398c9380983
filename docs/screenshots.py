"""Take the screenshots in docs/pictures with Chromium: the report, its timeline, and Perfetto's interface.

    python docs/screenshots.py

It needs chromium and the extra `view`. Run it when the report changes its look; no test compares screenshots.
"""

import subprocess
import sys
import tempfile
import time
from base64 import b64decode
from io import BytesIO
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))
from tests.browser import Page, browser  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
RUN = ROOT / "data" / "generated" / "generated-4rank-ddp"
TRACELAB = [sys.executable, "-m", "tracelab"]
COLORS = 128
DRAWING_S = 5
"""Perfetto draws its tracks on canvas, without a sign in the page that it is done."""


def main() -> None:
    """Take all screenshots."""
    with tempfile.TemporaryDirectory(prefix="tracelab-screenshots-") as folder, browser() as page:
        store, report = Path(folder) / "lab", Path(folder) / "report.html"
        _run("ingest", str(RUN), "--store", str(store), "--quiet")
        _run("report", "--store", str(store), "-o", str(report))
        page.open(report, width=1100, height=1600)
        page.run("document.querySelector('nav').style.display = 'none'")  # it sticks to the top of the window
        _save(page, "report.png", "#time-title", drawn="#time svg", height=760)
        _save(page, "timeline.png", ".timeline-legend", drawn="#when canvas", height=880)
        _save_viewer(page, store)


def _run(*arguments: str) -> None:
    subprocess.run([*TRACELAB, *arguments], check=True)


def _save_viewer(page: Page, store: Path) -> None:
    """Serve the run with `tracelab view`, and take Perfetto's interface once it shows every rank."""
    command = [*TRACELAB, "view", "--store", str(store), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as viewer:
        url = next(word for line in viewer.stdout or () for word in line.split() if word.startswith("http://127.0.0.1"))
        page.call("Emulation.setDeviceMetricsOverride", width=1400, height=640, deviceScaleFactor=1, mobile=False)
        page.call("Page.navigate", url=url)
        page.until("document.body?.innerText.includes('rank 3 · GPU 3')")
        time.sleep(DRAWING_S)
        _write(page.call("Page.captureScreenshot", format="png")["data"], "view.png")
        viewer.terminate()


def _save(page: Page, name: str, element: str, *, drawn: str, height: int) -> None:
    """Take the page from an element on, once its chart, which the report draws when it is scrolled to, exists."""
    page.run(f"document.querySelector({element!r}).scrollIntoView()")
    page.until(f"document.querySelector({drawn!r})")
    top = page.run(f"document.querySelector({element!r}).getBoundingClientRect().top + scrollY") - 16
    clip = {"x": 0, "y": top, "width": page.run("document.documentElement.clientWidth"), "height": height, "scale": 1}
    shot = page.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
    _write(shot["data"], name)


def _write(data: str, name: str) -> None:
    picture = Image.open(BytesIO(b64decode(data))).convert("RGB")
    picture.quantize(COLORS).save(PICTURES / name, optimize=True)


if __name__ == "__main__":
    main()
