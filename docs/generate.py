"""Writes docs/reference from the code and docs/cookbook from its SQL; examples and pictures are of the runs in data/.

python docs/generate.py           write the pages
python docs/generate.py --check   fail when a page or a picture is not what it would write
"""

import io
import sys
from pathlib import Path

import matplotlib.image
import numpy as np

import examples
import pages
from tracelab.query import library

DOCS = Path(__file__).parent
_SAME_PICTURE = 2.0
"""Mean difference, of 255, up to which two pictures are the same: fonts are drawn a little differently elsewhere."""


def made(*, small: bool = True) -> dict[str, bytes]:
    """Every generated file by its path in docs; pictures as `small` as can be."""
    files = {f"reference/{name}": text.encode() for name, text in pages.pages().items()}
    with examples.recorded() as lab, examples.swept() as sweeps, examples.compared() as pair:
        for name, each in library.library().items():
            takes_two = any(param.type == "run" for param in each.params)
            of_sweeps = any(param.name == "sweep" for param in each.params)
            asked = pair if takes_two else sweeps if of_sweeps else lab
            example = examples.asked(asked, each)
            if example.answer is None:
                example = examples.asked(sweeps, each)
            if example.answer is None:
                example = examples.asked_case(each)
            example = examples.drawn(each, example, small=small)
            others = {
                tool: (other, examples.asked(lab, other)) for tool, other in library.variants().get(name, {}).items()
            }
            files[f"reference/queries/{name}.md"] = pages.query_page(each, example, others).encode()
            if example.picture:
                files[f"reference/queries/{name}.png"] = example.picture
        files["guides/cookbook.md"] = pages.cookbook(lab).encode()
    return files


def written() -> dict[str, bytes]:
    """Every file that lies there now."""
    paths = [*(DOCS / "reference").rglob("*.*"), DOCS / "guides" / "cookbook.md"]
    return {path.relative_to(DOCS).as_posix(): path.read_bytes() for path in paths}


def stale() -> list[str]:
    """The files that are not what the code says now, or that nothing makes any more."""
    new, old = made(small=False), written()
    return sorted(name for name in new.keys() | old.keys() if not _same(name, new.get(name), old.get(name)))


def write() -> None:
    """Write what changed, and remove what nothing makes any more."""
    new, old = made(), written()
    for name in old.keys() - new.keys():
        (DOCS / name).unlink()
    for name, content in new.items():
        if not _same(name, content, old.get(name)):
            (DOCS / name).parent.mkdir(parents=True, exist_ok=True)
            (DOCS / name).write_bytes(content)


def _same(name: str, new: bytes | None, old: bytes | None) -> bool:
    if new is None or old is None or not name.endswith(".png"):
        return new == old
    first, second = (matplotlib.image.imread(io.BytesIO(picture)) for picture in (new, old))
    return first.shape == second.shape and float(np.abs(first - second).mean()) * 255 < _SAME_PICTURE


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        if wrong := stale():
            sys.exit(f"docs: {', '.join(wrong)} not current; run: make docs")
    else:
        write()
