"""The readers, in the order in which they are asked."""

from tracelab.readers import kineto
from tracelab.readers.base import FolderReader, Reader

READERS: tuple[Reader, ...] = (kineto,)
"""Several may take content by how it begins; the first that finds its own data in it (`glimpse`) reads it."""

FOLDER_READERS: tuple[FolderReader, ...] = ()
"""Those for which a folder can be one source."""
