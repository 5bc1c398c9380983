"""Fuzz one target for some time: `python -m tests.fuzz.run ncu_text --seconds 600`. Linux only, for atheris is.

An input that raises is written into the working folder (crash-…), and given again as a last argument it raises again.
`all` fuzzes one target after the other, each in a folder of its own, and prints the exit code of each.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

import atheris

with atheris.instrument_imports(include=["tracelab.readers"]):
    from tests.fuzz.targets import TARGETS

ALL = "all"
LOG = "fuzz.log"
"""The file with what the fuzzer printed, in the folder of a target."""
_LONGEST_INPUT = 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=(*TARGETS, ALL))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--runs", type=int, default=-1, help="stop after so many inputs: the same ones each time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("input", nargs="?", help="an input that raised before")
    given = parser.parse_args()
    if given.target != ALL:
        fuzz(given.target, given)
    for name in TARGETS:
        print(name, _fuzz_in_a_fork(name, given), flush=True)


def _fuzz_in_a_fork(name: str, given: argparse.Namespace) -> int:
    """Fuzz a target in a process that need not import and instrument the readers again; return its exit code."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    Path(name).mkdir()
    os.chdir(name)
    log = os.open(LOG, os.O_WRONLY | os.O_CREAT)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    return fuzz(name, given)


def fuzz(name: str, given: argparse.Namespace) -> NoReturn:
    """Fuzz one target until an input raises, or the time or the runs end."""
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as folder:
        corpus, words = Path(folder) / "corpus", Path(folder) / "words"
        corpus.mkdir()
        for at, seed in enumerate(target.seeds):
            (corpus / str(at)).write_bytes(seed)
        words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))
        options = [
            f"-dict={words}",
            f"-seed={given.seed}",
            f"-runs={given.runs}",
            f"-max_total_time={given.seconds}",
            f"-max_len={_LONGEST_INPUT}",
            "-timeout=20",
            "-print_final_stats=1",
        ]
        atheris.Setup([sys.argv[0], *options, given.input or str(corpus)], target.run)
        atheris.Fuzz()
    raise AssertionError("atheris ends the process")


def _escaped(word: str) -> str:
    return "".join(char if char.isalnum() or char == " " else f"\\x{ord(char):02x}" for char in word)


if __name__ == "__main__":
    main()
