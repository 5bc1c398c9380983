"""Write the generated parts of the documentation.

- docs/reference, from the code and the query headers
- docs/guides/cookbook.md, from the SQL in docs/cookbook
- the console examples of README.md and of every other page, by running them
- pictures of charts, in docs/pictures and beside the pages of queries

All examples use the recorded and generated runs in data/.

python docs/generate.py                       write what changed
python docs/generate.py --check               fail if a page or a picture is not current
python docs/generate.py --check-definitions   fail if a definition is not current; this runs no example, so it is quick
"""

import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

import console
import examples
import pages
from tracelab.client import Lab
from tracelab.query import library
from tracelab.query.spec import Query

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CHARTS = {"gpu_breakdown": {}, "nccl_share": {"rank": 0}}
"""Queries whose charts of the generated run are in docs/pictures, and their parameters."""
_SAME_PICTURE = 2.0
"""Mean difference, of 255, up to which two pictures count as equal: other machines draw fonts slightly differently."""


def build_files(*, small: bool = True) -> dict[str, bytes]:
    """Return every generated file by its path in the repository; `small` compresses pictures as far as possible."""
    files = {f"docs/reference/{name}": text.encode() for name, text in pages.build_pages().items()}
    with (
        examples.open_recorded_runs() as lab,
        examples.open_all_runs() as sweeps,
        examples.open_run_pair() as pair,
        examples.open_multi_rank_runs() as ranks,
        examples.open_gpu_runs() as gpu,
    ):
        for name, query in library.library().items():
            if name in examples.GPU_QUERIES:
                example = examples.run_example(gpu, query, [examples.GPU_QUERIES[name]])
            else:
                example = _find_example(query, lab, sweeps, pair, ranks)
            example = examples.with_picture(query, example, small=small)
            variants = {
                tool: (variant, examples.run_example(lab, variant))
                for tool, variant in library.variants().get(name, {}).items()
            }
            files[f"docs/reference/queries/{name}.md"] = pages.build_query_page(query, example, variants).encode()
            if example.picture:
                files[f"docs/reference/queries/{name}.png"] = example.picture
        files["docs/guides/cookbook.md"] = pages.build_cookbook(lab).encode()
        for name, params in CHARTS.items():
            files[f"docs/pictures/{name}.svg"] = examples.draw_svg(lab, name, {"run": examples.RUN, **params})
        for path in _handwritten_pages(files):
            text = path.read_text("utf-8")
            if "```console" in text:
                files[path.relative_to(ROOT).as_posix()] = console.update_examples(
                    text, (ranks if examples.JOB_RUN in text else lab).store
                ).encode()
    return files


def _find_example(query: Query, lab: Lab, sweeps: Lab, pair: Lab, ranks: Lab) -> examples.Example:
    """Return the answer of a query for the first of these stores that has rows for it, else that of a golden case."""
    takes_two_runs = any(param.type == "run" for param in query.params)
    takes_sweep = any(param.name == "sweep" for param in query.params)
    if query.name in examples.JOB_QUERIES:
        example = examples.run_example(ranks, query, [{"run": examples.JOB_RUN}])
    else:
        example = examples.run_example(pair if takes_two_runs else sweeps if takes_sweep else lab, query)
    for store in (sweeps, ranks):
        if example.answer is None:
            example = examples.run_example(store, query)
    return examples.run_golden_case(query) if example.answer is None else example


def _handwritten_pages(generated: dict[str, bytes]) -> Iterator[Path]:
    for path in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]:
        if path.relative_to(ROOT).as_posix() not in generated:
            yield path


def read_generated_files() -> dict[str, bytes]:
    """Return the files that exist where only generated ones belong."""
    paths = [*(DOCS / "reference").rglob("*.*"), *(DOCS / "pictures").glob("*.svg")]
    return {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in paths}


def find_stale_files() -> list[str]:
    """Return the files that differ from what the code generates, and those that nothing generates any more."""
    return sorted(
        name for name, (new, old) in _pair_files(build_files(small=False)).items() if not _equal(name, new, old)
    )


def find_stale_definitions() -> list[str]:
    """Return the pages of docs/reference whose definitions are not current, without running an example."""
    pages_on_disk = {name: page.decode() for name, page in read_generated_files().items() if name.endswith(".md")}
    expected = {f"docs/reference/{name}": [text] for name, text in pages.build_definition_pages().items()}
    for name, query in library.library().items():
        variants = library.variants().get(name, {}).values()
        expected[f"docs/reference/queries/{name}.md"] = pages.build_definitions(query, variants)
    stale = [name for name, parts in expected.items() if any(part not in pages_on_disk.get(name, "") for part in parts)]
    return sorted(stale + list(pages_on_disk.keys() - expected.keys() - {"docs/reference/studies.md"}))


def write_files() -> None:
    """Write the files that changed, and remove those that nothing generates any more."""
    for name, (new, old) in _pair_files(build_files()).items():
        path = ROOT / name
        if new is None:
            path.unlink()
        elif not _equal(name, new, old):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(new)


def _pair_files(new: dict[str, bytes]) -> dict[str, tuple[bytes | None, bytes | None]]:
    """Pair the new content of every file with its content on disk."""
    old = {name: (ROOT / name).read_bytes() for name in new if (ROOT / name).exists()} | read_generated_files()
    return {name: (new.get(name), old.get(name)) for name in new.keys() | old.keys()}


def _equal(name: str, new: bytes | None, old: bytes | None) -> bool:
    if new is None or old is None:
        return new == old
    if name.endswith(".svg"):
        return _texts(new) == _texts(old)
    if not name.endswith(".png"):
        return new == old
    first, second = (Image.open(io.BytesIO(picture)) for picture in (new, old))
    if first.size != second.size or first.info.get(examples.PICTURE_TEXTS) != second.info.get(examples.PICTURE_TEXTS):
        return False
    pixels, others = (np.asarray(picture.convert("RGB"), dtype=float) for picture in (first, second))
    return float(np.abs(pixels - others).mean()) < _SAME_PICTURE


def _texts(svg: bytes) -> list[bytes]:
    """Return the texts of a chart, which matplotlib repeats as comments; outlines of letters depend on the machine."""
    return re.findall(rb"<!-- (.*?) -->", svg)


def main(arguments: list[str]) -> None:
    """Write or check the files; exit with the stale ones."""
    with tempfile.TemporaryDirectory(prefix="tracelab-docs-") as folder:
        os.environ.setdefault(examples.STORES, folder)  # ingests each store once
        match arguments:
            case []:
                write_files()
                return
            case ["--check"]:
                stale = find_stale_files()
            case ["--check-definitions"]:
                stale = find_stale_definitions()
            case _:
                sys.exit(__doc__)
    if stale:
        sys.exit(f"docs: {', '.join(stale)} not current; run: make docs")


if __name__ == "__main__":
    main(sys.argv[1:])
