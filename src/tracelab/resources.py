"""Where the files that ship beside the code stand: in the wheel inside the package, in a checkout at its top."""

from pathlib import Path

_PACKAGE = Path(__file__).parent


def _folder(name: str) -> Path:
    shipped = _PACKAGE / f"_{name}"
    return shipped if shipped.is_dir() else _PACKAGE.parents[1] / name


QUERIES = _folder("queries")
COLLECTORS = _folder("collectors")
DATA = _folder("data")
"""In the wheel: the studies' figures, and the runs that are examples of their rows."""
