"""The readers, in the order in which they are asked."""

from tracelab.readers import kineto, ncu, nsys, nvprof, run
from tracelab.readers.base import FolderReader, Reader

READERS: tuple[Reader, ...] = (run, ncu, kineto, nvprof, nsys)
"""Several may take content by how it begins; the first that finds its own data in it (`glimpse`) reads it."""

FOLDER_READERS: tuple[FolderReader, ...] = (nsys,)
"""Those for which a folder can be one source."""
