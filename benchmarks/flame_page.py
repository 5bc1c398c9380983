"""Measure in a headless Chromium how soon a flame graph of as many frames as a page holds can be used.

    .venv/bin/python -m benchmarks.flame_page
    .venv/bin/python -m benchmarks.flame_page --graphs 8

Prints medians in ms: from navigation to the drawing, from a click to the frame with the zoomed drawing, and of a move
of the mouse to the figures of the bar below it. The frames are a tree of random depths, costs and long names. With more
graphs on the page, the first one is measured: the page reads all of them, and draws those that are near.
"""

import argparse
import random
import statistics
import tempfile
from pathlib import Path
from typing import Any

from tests.browser import Page, browser

from tracelab.report.flame import MOST_FRAMES, embed_figures
from tracelab.report.html import Section
from tracelab.report.page import render_page

NAMES = 3_000
DEEPEST = 60
CANVAS = "document.querySelector('.flame canvas')"
INTERACTION = f"""new Promise(done => requestAnimationFrame(() => {{
    const drawn = performance.now(), canvas = {CANVAS}, box = canvas.getBoundingClientRect();
    const at = (kind, place, row) => canvas.dispatchEvent(
        new kind(kind === MouseEvent ? "click" : "pointermove",
                 {{ clientX: box.left + box.width * place, clientY: box.top + row * 18 + 5 }}));
    const clicked = performance.now();
    at(MouseEvent, 0.4, 3);
    requestAnimationFrame(() => requestAnimationFrame(() => {{
        const zoomed = performance.now();
        for (let move = 0; move < 20; move++) at(PointerEvent, 0.2 + move * 0.03, 8);
        done({{ drawn, zoomed: zoomed - clicked, moved: (performance.now() - zoomed) / 20 }});
    }}));
}}))"""


def random_figure(seed: int, frames: int = MOST_FRAMES) -> dict[str, Any]:
    """Return a figure of the report with so many frames: half of them called by the frame before."""
    rng = random.Random(seed)
    parents, depths = [-1], [0]
    for at in range(1, frames):
        is_called_by_last = rng.random() < 0.5 and depths[-1] < DEEPEST
        parents.append(at - 1 if is_called_by_last else rng.randrange(max(0, at - 400), at))
        depths.append(depths[parents[-1]] + 1)
    tree = {
        "names": [f"site-packages/models/decoder_{number}.py({number}): forward_of_layer" for number in range(NAMES)],
        "frames": [rng.randrange(NAMES) for _ in parents],
        "parents": parents,
        "own": [int(rng.paretovariate(1.1) * 100) for _ in parents],
        "merged": 0,
    }
    return {"run": "r", "rank": 0, "measures": [{"measure": "cpu", "by": "stack", "title": "CPU", "unit": "ns"} | tree]}


def measure(page: Page, path: Path) -> dict[str, float]:
    """Open a page, zoom by a click, and return the times of both and of a move of the mouse."""
    page.open(path)
    page.until(CANVAS)
    return dict(page.run(INTERACTION))


def main() -> None:
    """Measure one page several times, each by a new navigation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--graphs", type=int, default=1)
    options = parser.parse_args()
    times: int = options.times
    graphs: int = options.graphs
    body = "".join(
        f'<figure class="flame" data-flame="{place}"><div class="flame-drawing"></div></figure>'
        for place in range(graphs)
    )
    data = embed_figures([random_figure(seed) for seed in range(1, graphs + 1)])
    section = Section("stacks", "Flame graphs", body, data, ("flame.js",))
    with tempfile.TemporaryDirectory() as folder, browser() as page:
        path = Path(folder) / "flame.html"
        path.write_text(render_page("flame graph", "", [section]), encoding="utf-8")
        print(f"{graphs} graphs, {path.stat().st_size / 1e6:.1f} MB")
        taken = [measure(page, path) for _ in range(times)]
    for name in taken[0]:
        values = [each[name] for each in taken]
        print(f"{name}: {statistics.median(values):.1f} ms, {min(values):.1f} to {max(values):.1f}")


if __name__ == "__main__":
    main()
