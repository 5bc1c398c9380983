"""Check the parser of Kineto traces natively, under AddressSanitizer and UBSan: `python -m tests.native.sanitize`.

Runs the parser's tests on the native build, then the fuzzer. Ends with 1 where either fails, and with 0 and a reason
where no compiler has sanitizers.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.targets import TARGETS
from tests.native.build import NoSanitizerError, build_fuzzer, build_library, find_compiler, sanitized_environment

TESTS = sorted(Path(__file__).parents[1].glob("readers/test_kineto_parser*.py"))
CRASH_FILE = Path("crash-kineto-parser")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="how long to fuzz  [60]")
    parser.add_argument("--seed", type=int, default=1, help="of the fuzzer's random numbers  [1]")
    options = parser.parse_args()
    try:
        compiler, _ = find_compiler()
    except NoSanitizerError as error:
        print(f"skipped: {error}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        print(f"{compiler} builds the parser; its tests run under AddressSanitizer and UBSan", flush=True)
        tests = run_tests(build_library(Path(folder)))
        fuzzing = run_fuzzer(build_fuzzer(Path(folder)), Path(folder), options.seconds, options.seed)
    return int(bool(tests.returncode or fuzzing.returncode))


def run_tests(library: Path) -> "subprocess.CompletedProcess[str]":
    """Run the parser's tests on a native library."""
    options = ["-p", "tests.native.plugin", "-p", "no:cacheprovider", "-p", "no:xdist", "-q"]
    command = [sys.executable, "-m", "pytest", *options, *map(str, TESTS)]
    return subprocess.run(command, env=sanitized_environment(library), text=True, check=False)


def run_fuzzer(
    fuzzer: Path, folder: Path, seconds: int, seed: int, crash_file: Path = CRASH_FILE
) -> "subprocess.CompletedProcess[str]":
    """Run the fuzzer; it begins with what the other fuzzer of the parser begins with."""
    corpus = []
    for number, text in enumerate((*TARGETS["kineto_parser"].seeds, *_SEEDS)):
        corpus.append(folder / f"seed-{number}")
        corpus[-1].write_bytes(b"\0\0\0" + text)
    command = [str(fuzzer), str(seconds), str(seed), str(crash_file), *map(str, corpus)]
    return subprocess.run(command, text=True, check=False)


_SEEDS = (
    b'{"ph":"X","cat":"kernel","name":"watched","pid":1,"tid":"a","ts":1.5,"dur":2,"id":5,"args":{"int":1,"small":2,'
    b'"real":1.5,"text":"a\\u00e9","json":[1,{"b":null}],"list":[1,2,3],"none":0,"z":"y"}},{"ph":"C","args":{"a":1}}',
    b'{"ph":"i", "name": "\\ud83d\\ude00 \xc3\xa9", "ts": "1.5", "pid": null, "args": {"list": [1, [2], "]"], "a": 1, '
    b'"a": 2}}, {}, {"args": {"text": {"x": [NaN, ], }, "int": "7", "real": "x"}, "int": 1}',
)
"""Events with arguments of all types; see `configure` in fuzz.c."""


if __name__ == "__main__":
    sys.exit(main())
