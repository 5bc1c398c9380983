"""The readers, in the order in which they are asked."""

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from tracelab.readers.base import FolderReader, Reader

if TYPE_CHECKING:
    from tracelab.readers import kineto, ncu, nsys, nvprof, run_folder

    _ALL: tuple[Reader, ...] = (run_folder, ncu, kineto, nvprof, nsys)
    _OF_FOLDERS: tuple[FolderReader, ...] = (nsys,)

NAMES = ("run_folder", "ncu", "kineto", "nvprof", "nsys")
"""Several may take content by how it begins; the first that finds its own data in it (`probe_file`) reads it."""

FOLDER_NAMES = ("nsys",)
"""Those for which a folder can be one source."""


def readers() -> Iterator[Reader]:
    """The readers, each imported when its turn comes: to import them all takes as long as to read 20 MB."""
    for name in NAMES:
        yield cast("Reader", importlib.import_module(f"tracelab.readers.{name}"))


def folder_readers() -> Iterator[FolderReader]:
    """The readers that take folders."""
    for name in FOLDER_NAMES:
        yield cast("FolderReader", importlib.import_module(f"tracelab.readers.{name}"))
