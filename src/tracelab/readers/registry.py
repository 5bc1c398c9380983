"""The readers, in the order in which they are asked."""

from tracelab.readers import kineto
from tracelab.readers.base import Reader

READERS: tuple[Reader, ...] = (kineto,)
