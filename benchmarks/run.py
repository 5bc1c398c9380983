"""Measure speed and memory of tracelab as ratios to json.load and other tools, in one run on one machine.

    python benchmarks/run.py                         300 MB, plain and gzip; queries; start: some 40 minutes
    python benchmarks/run.py --quick                 100 MB of one trace, once
    python benchmarks/run.py --size 300 3000 --peers --out results.json
    python benchmarks/run.py --parts queries --events 1000000

Ends with 1 if a result was wrong, never because it was slow.
"""

import argparse
import compileall
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import counter_queries
import cpu_side_queries
import gpu_queries
import ingest_cost
import job_queries
import markdown_report
import nsys_export_cost
import query_cost
import startup_cost
from ingest_cost import Case, Job
from machine import machine
from process_cost import FailedError

HERE = Path(__file__).parent
CORPUS = HERE.parents[1] / "shared" / "traces" / "kineto" / "hta"
"""Real recorded traces; too large and too variously licensed to be part of the checkout, they may stand beside it."""

LARGE_MB = 1_000
"""From this size on, one source, and one pair."""

SOURCES = {  # by the form of their times, which decides how they must be read
    "relative": HERE.parent / "data" / "generated" / "generated-4rank-ddp" / "rank0.pt.trace.json.gz",
    "absolute": CORPUS / "ns_resolution_trace" / "rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
    "integer": CORPUS / "df_index_resolver.json.gz",
    "cpu": HERE.parent / "data" / "cpu" / "resnet18-batch4-stacks.pt.trace.json.gz",
}
PREFERRED = ("absolute", "relative", "integer", "cpu")
PARTS = ("ingest", "nsys", "queries", "start")
EVENTS = [1_000_000, 10_000_000]


def main() -> int:
    """Measure what is asked for, print Markdown, and return the exit code."""
    options = _options()
    compileall.compile_dir(HERE.parent / "src", quiet=2)  # as pip does; some shells write no bytecode
    if options.work:
        options.work.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="tracelab-bench-", dir=options.work))
    facts = machine()
    if facts["load"] > facts["cores"] / 4:
        _say(f"while {facts['load']} other programs want a core: a ratio on all cores will be too small")
    cases: list[Case] = []
    asked: list[list[query_cost.Asked]] = []
    start = None
    exported = None
    try:
        if "start" in options.parts:
            _say("tracelab --help")
            start = startup_cost.measure(3 if options.quick else startup_cost.PAIRS)
        for job in _jobs(options) if "ingest" in options.parts else ():
            _say(f"{job.name}, {job.size_mb} MB{', gzip' if job.gzip else ''}")
            cases.append(ingest_cost.measure(job, work))
        if "nsys" in options.parts:
            rows = nsys_export_cost.ROWS // 10 if options.quick else nsys_export_cost.ROWS
            _say(f"an nsys export of {rows:,} kernels")
            exported = nsys_export_cost.measure(rows, work, options.pairs or 3)
        if "queries" in options.parts:
            asked = [_answers(events, work) for events in options.events]
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(markdown_report.markdown(facts, cases, exported, asked, start))
    if options.out:
        options.out.write_text(json.dumps(_plain(facts, cases, exported, asked, start), indent=1) + "\n")
    wrong = [problem for case in cases for problem in case.wrong]
    wrong += [problem for stores in asked for one in stores for problem in one.wrong]
    wrong += exported.wrong if exported else []
    for problem in wrong:
        print(f"WRONG: {problem}", file=sys.stderr)
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100 MB of one trace, once, and 100,000 events")
    parser.add_argument("--size", type=int, nargs="+", metavar="MB", help="sizes of the traces' text  [300]")
    parser.add_argument("--source", nargs="+", metavar="NAME|FILE", help=f"{', '.join(PREFERRED)}, or a trace")
    parser.add_argument("--form", nargs="+", choices=("plain", "gzip"), default=["plain", "gzip"])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--pairs", type=int, metavar="N", help="runs of each  [3, from 1000 MB on 1]")
    parser.add_argument("--no-json-load", action="store_true", help="leave it out: for 3 GB it takes 16 GB")
    parser.add_argument("--peers", action="store_true", help="HTA and trace_processor too, once a size")
    parser.add_argument(
        "--events",
        type=int,
        nargs="+",
        default=EVENTS,
        metavar="N",
        help=f"in each store that is asked  [{', '.join(f'{events:,}' for events in EVENTS)}]",
    )
    parser.add_argument("--work", type=Path, metavar="DIR", help="where to build traces  [the temporary folder]")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write all figures as JSON")
    options = parser.parse_args()
    options.size = options.size or [100 if options.quick else 300]
    options.pairs = options.pairs or (1 if options.quick else None)
    if options.quick:
        options.events = [min(*options.events, EVENTS[0] // 10)]
    return options


def _answers(events: int, work: Path) -> list[query_cost.Asked]:
    """Ask every question of each kind of store with so many events."""
    _say(f"every question about {events:,} events: GPU rows of 1 rank and of 8, a whole trace, counters, a job")
    gpu_rows = [gpu_queries.measure(ranks, work, events) for ranks in (1, 8)]
    others = [cpu_side_queries.measure, counter_queries.measure]
    if events <= job_queries.MOST_KERNELS:
        others.append(job_queries.measure)
    return gpu_rows + [measure(work, events) for measure in others]


def _jobs(options: argparse.Namespace) -> Iterator[Job]:
    sources = _sources(options.source)
    for size_mb in options.size:
        only_first = options.quick or size_mb >= LARGE_MB
        for at, (name, source) in enumerate(sources.items()):
            if only_first and at:
                break
            for form in options.form:
                yield Job(
                    name=name,
                    source=source,
                    size_mb=size_mb,
                    gzip=form == "gzip",
                    pairs=options.pairs or (1 if size_mb >= LARGE_MB else 3),
                    baseline=not options.no_json_load,
                    peers=options.peers and not at and form == options.form[0],
                )


def _sources(names: list[str] | None) -> dict[str, Path]:
    if names:
        return {Path(name).name.split(".")[0]: SOURCES.get(name, Path(name)) for name in names}
    return {name: SOURCES[name] for name in PREFERRED if SOURCES[name].is_file()}


def _plain(
    facts: markdown_report.Facts,
    cases: list[Case],
    exported: nsys_export_cost.Export | None,
    asked: list[list[query_cost.Asked]],
    start: startup_cost.Start | None,
) -> dict:
    return {
        "machine": facts,
        "ingest": [asdict(case) | {"speedup": case.speedup, "peak_bytes": case.peak_bytes} for case in cases],
        "nsys": asdict(exported) | {"rows_per_s": exported.rows_per_s} if exported else None,
        "queries": [_without_rows(one) for stores in asked for one in stores],
        "start": asdict(start) if start else None,
    }


def _without_rows(asked: query_cost.Asked) -> dict:
    plain = asdict(asked)
    return plain | {
        "answers": {name: answer | {"rows": len(answer["rows"])} for name, answer in plain["answers"].items()}
    }


def _say(text: str) -> None:
    print(f"measuring {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except FailedError as failed:
        sys.exit(f"benchmarks: {failed}")
