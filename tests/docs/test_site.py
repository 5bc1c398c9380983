"""The documentation site builds without a warning, and every link, anchor and picture in it exists."""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from tests.browser import browser, needs_browser

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SNIPPET = re.compile(r'^--8<-- "(.+)"$', re.MULTILINE)
PICTURE_SUFFIXES = {".png", ".svg"}
PHONE_WIDTH = 390
IS_CUT_OFF = f"""document.scrollingElement.scrollWidth > {PHONE_WIDTH} ||
    [...document.querySelectorAll(".md-content :is(img, table, pre)")].some(element => {{
        if (element.getBoundingClientRect().right <= {PHONE_WIDTH + 1}) return false;
        for (let box = element; box; box = box.parentElement)
            if (["auto", "scroll"].includes(getComputedStyle(box).overflowX)) return false;
        return true;
    }})"""


class Page(HTMLParser):
    """Collect the link targets and the ids of one HTML page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.ids: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record `href`, `src` and `id` of a tag."""
        for name, value in attrs:
            if value and name in ("href", "src") and tag != "use":
                self.targets.add(value)
            elif value and name == "id":
                self.ids.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site from a copy of its sources; zensical refuses pages outside of the project's folder."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS, folder / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    snippets = {name for page in DOCS.rglob("*.md") for name in SNIPPET.findall(page.read_text("utf-8"))}
    for name in ("mkdocs.yml", *snippets):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    built = subprocess.run(command, cwd=folder, capture_output=True, check=False, text=True)
    assert (built.returncode, "No issues found" in built.stderr) == (0, True), built.stdout + built.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}


def test_every_link_anchor_and_picture_exists(pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        for target in sorted(page.targets):
            parts = urlsplit(target)
            if parts.scheme:
                continue
            file = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            missing_anchor = parts.fragment and file in pages and unquote(parts.fragment) not in pages[file].ids
            if not file.exists() or missing_anchor:
                broken.append((path.name, target))
    assert broken == []


def test_every_page_is_in_the_navigation_or_linked_from_the_query_list(pages: dict[Path, Page], site: Path) -> None:
    def listed(entries: object) -> set[str]:
        if isinstance(entries, str):
            return {entries}
        values = entries.values() if isinstance(entries, dict) else entries
        return {path for value in values for path in listed(value)}  # type: ignore[attr-defined]

    navigation = listed(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"])
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    queries = {
        f"reference/{target}" for target in re.findall(r"queries/\w+\.md", (DOCS / "reference/queries.md").read_text())
    }
    assert (written - navigation - queries, navigation - written) == (set(), set())
    assert {path.relative_to(site).with_suffix(".md").as_posix() for path in pages} == written


def test_the_site_loads_nothing_from_the_network(site: Path) -> None:
    loads = re.compile(
        r"""<(?:script|link|img|iframe)[^>]+(?:src|href)=["']?(?:https?:)?//|url\(["']?(?:https?:)?//|@import"""
    )
    files = [path for path in site.rglob("*") if path.suffix in {".html", ".css"}]
    assert [path.name for path in files if loads.search(path.read_text("utf-8"))] == []


@needs_browser
def test_no_page_is_wider_than_a_phone_and_none_reports_an_error(pages: dict[Path, Page]) -> None:
    queries = [path for path in pages if path.parent.name == "queries"]
    wide, errors = [], []
    with browser() as window:
        for path in [*(path for path in pages if path not in queries), *queries[::8]]:
            window.open(path, width=PHONE_WIDTH, height=844)
            if window.run(IS_CUT_OFF):
                wide.append(path.name)
            errors += [problem for problem in window.problems() if "search.js" not in problem]  # it needs a server
    assert (wide, errors) == ([], [])


def test_every_picture_is_shown_on_a_page(pages: dict[Path, Page], site: Path) -> None:
    shown = {Path(os.path.normpath(path.parent / target)) for path, page in pages.items() for target in page.targets}
    pictures = {path for path in site.rglob("*") if path.suffix in PICTURE_SUFFIXES and "assets" not in path.parts}
    assert pictures - shown == set()
