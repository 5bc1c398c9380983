"""Paths of the files that ship beside the code: inside the package in a wheel, at the top of a checkout."""

from pathlib import Path

_PACKAGE = Path(__file__).parent
_IS_WHEEL = (_PACKAGE / "_queries").is_dir()
_ROOT, _PREFIX = (_PACKAGE, "_") if _IS_WHEEL else (_PACKAGE.parents[1], "")

QUERIES = _ROOT / f"{_PREFIX}queries"
COLLECTORS = _ROOT / f"{_PREFIX}collectors"
DATA = _ROOT / f"{_PREFIX}data"
"""A wheel has the figures of the studies and the runs that its examples use."""
