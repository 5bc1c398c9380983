"""What root may do and other users may not, taken from this thread for a while, so that root runs the tests of it."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_VERSION_3 = 0x20080522
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2
_FILES = 1 << _CAP_DAC_OVERRIDE | 1 << _CAP_DAC_READ_SEARCH

_NOBODY = 65534

can_be_dropped = os.geteuid() != 0 or sys.platform == "linux"


@contextmanager
def without_roots_access_to_files() -> Iterator[None]:
    """Let the modes of files bind root, too; threads that begin in the meantime inherit that."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable: the first 32 capabilities, then the others
    _check(libc.capget(header, sets))
    before = sets[0]
    sets[0] &= ~_FILES
    _check(libc.capset(header, sets))
    os.setresuid(_NOBODY, 0, 0)  # os.access goes by the real user
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        sets[0] = before
        _check(libc.capset(header, sets))


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
