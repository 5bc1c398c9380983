"""Build the parser natively, from the sources that are compiled to WebAssembly, with AddressSanitizer and UBSan."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from tracelab.readers.kineto import parser

SOURCES = Path(parser.__file__).parent / "c"
HERE = Path(__file__).parent
UNITS = ("memory", "json", "decimal", "arguments", "records", "events", "columns", "exports")
FLAGS = (
    *("-std=c17", "-D_GNU_SOURCE", "-O1", "-g", "-fno-omit-frame-pointer", "-fPIC", "-Wall", "-Wextra", "-Werror"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{SOURCES}"),
)
_RUNTIMES = {"gcc": ("libasan.so",), "clang": ("libclang_rt.asan.so", "libclang_rt.asan-x86_64.so")}
"""By compiler: names of the library that must be loaded before Python, which is not built with the sanitizer."""


class NoSanitizerError(Exception):
    """No compiler here can build with sanitizers."""


@cache
def find_compiler() -> tuple[str, Path]:
    """Return a compiler and its AddressSanitizer library.

    Raises NoSanitizerError where there is none.
    """
    if sys.platform != "linux":
        raise NoSanitizerError("the sanitized build needs Linux: elsewhere its library cannot be loaded into Python")
    for compiler, names in _RUNTIMES.items():
        if not shutil.which(compiler):
            continue
        for name in names:
            done = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=False)
            library = Path(done.stdout.strip())
            if library.is_absolute() and library.exists():
                return compiler, library.resolve()
    raise NoSanitizerError("neither gcc with libasan nor clang with compiler-rt is installed")


def build_library(folder: Path) -> Path:
    """Build the parser as a shared library that Python can load."""
    library = folder / "parser.so"
    units = [str(SOURCES / f"{unit}.c") for unit in UNITS]
    _compile("-shared", "-o", str(library), *units, str(HERE / "platform_native.c"))
    return library


def build_fuzzer(folder: Path) -> Path:
    """Build the fuzzer; the parser in it counts the code that inputs reach."""
    objects = []
    for unit in UNITS:
        objects.append(str(folder / f"{unit}.o"))
        _compile("-fsanitize-coverage=trace-pc", "-c", "-o", objects[-1], str(SOURCES / f"{unit}.c"))
    fuzzer = folder / "fuzz"
    _compile("-o", str(fuzzer), *objects, str(HERE / "platform_native.c"), str(HERE / "fuzz.c"))
    return fuzzer


def sanitized_environment(library: Path) -> dict[str, str]:
    """Return the environment in which Python can load a sanitized library."""
    _, runtime = find_compiler()
    paths = os.pathsep.join([str(SOURCES.parents[4]), str(HERE.parents[1])])
    return {
        **os.environ,
        "LD_PRELOAD": str(runtime),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python keeps memory until it ends
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "NATIVE_PARSER": str(library),
        "PYTHONPATH": paths,
    }


def _compile(*arguments: str) -> None:
    compiler, _ = find_compiler()
    shared = ["-shared-libasan"] if compiler == "clang" else []
    done = subprocess.run([compiler, *FLAGS, *shared, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{compiler} failed:\n{done.stderr}")
