"""Read binary reports, .ncu-rep and .ncu-repz, through NVIDIA's module (`pip install tracelab[ncu]`)."""

import importlib
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tracelab.errors import NotProfilerDataError, SourceError
from tracelab.readers import decompress
from tracelab.readers.ncu.csv_pages import parse_id, parse_shape
from tracelab.readers.ncu.diagnostics import EXPORT
from tracelab.readers.ncu.locale_numbers import ENGLISH
from tracelab.readers.ncu.metric_rows import Launch, Metric
from tracelab.readers.ncu.report_builder import ReportBuilder
from tracelab.readers.ncu.report_container import DamagedReportError, count_undeclared_entries
from tracelab.readers.ncu.rule_results import Advice
from tracelab.temp_folders import process_folder

_MODULE = "ncu_report"
_MESSAGE_KINDS = ("INF", "INF", "OPT", "WRN", "ERR")  # NvRules' MsgType
_SPEEDUPS = {1: "local", 2: "global"}  # NvRules' SpeedupType
_LINK = re.compile(r"@[^@:]*:[^@:]*:([^@]*)@")
_SURROGATE = re.compile("[\ud800-\udfff]")
_COPIED_BYTES = 1 << 20


def read_report(path: Path, report: ReportBuilder, progress: Callable[[int], None]) -> None:
    """Add every launch of a report. Raises SourceError if the module is missing."""
    module = _import_ncu_report(path)
    report.rows.number_format = ENGLISH
    with _readable_copy(path, report, progress) as readable:
        report.skipped += _check_container(path, readable, report)
        number = 0
        for profile_range in module.load_report(str(readable)):
            for action in profile_range:
                _add_launch(report, action, number)
                number += 1
    if not report.kept:
        raise NotProfilerDataError(path, f"no readable launch in this report of ncu; try {EXPORT}")
    report.rows.flush()


def _check_container(path: Path, readable: Path, report: ReportBuilder) -> int:
    """Return how many launches the module will not read. Raises SourceError for a report that it may not survive."""
    try:
        undeclared = count_undeclared_entries(readable)
    except DamagedReportError as error:
        raise SourceError(path, f"is a damaged report of ncu, which {error}; copy it again") from error
    report.diagnostics.note("launch_lost", "a block declares fewer entries than it has", undeclared)
    return undeclared


def _import_ncu_report(path: Path) -> Any:  # noqa: ANN401 - NVIDIA's module declares no types
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its SWIG wrapper is older than Python's newest warnings
            return importlib.import_module(_MODULE)
    except ImportError as error:
        raise SourceError(
            path, f"is a binary report of ncu; pip install 'tracelab[ncu]' to read it, or export it with {EXPORT}"
        ) from error


@contextmanager
def _readable_copy(path: Path, report: ReportBuilder, progress: Callable[[int], None]) -> Iterator[Path]:
    """Yield the report decompressed (a .ncu-repz is zstd), with the suffix by which the module knows that."""
    if path.suffix == ".ncu-rep" and not decompress.is_compressed(path):
        progress(path.stat().st_size)
        yield path
        return
    with tempfile.TemporaryDirectory(dir=process_folder()) as folder:
        copy = Path(folder) / "report.ncu-rep"
        with decompress.open_decompressed(path, report.diagnostics, progress) as stream, copy.open("wb") as out:
            while chunk := decompress.read_chunk(stream, _COPIED_BYTES):
                out.write(chunk)
        yield copy


def _add_launch(report: ReportBuilder, action: Any, number: int) -> None:  # noqa: ANN401
    """Add all metrics of one launch, and the messages of its rules; damaged texts and metrics are counted."""
    clean = partial(_clean_text, report)
    metrics = {}
    for name in sorted(action.metric_names()):
        metric = action.metric_by_name(name) if _is_utf8(name) else None
        if metric is None:
            report.diagnostics.note("metric_lost", f"launch {number:,}")
        else:
            metrics[name] = metric
    if not metrics:  # after damage, the module can also return the launches behind it without metrics
        report.skipped += 1
        report.diagnostics.note("launch_lost", f"launch {number:,} has no metrics")
        return

    def text(name: str) -> str:
        return _value_text(metrics[name]) if name in metrics else ""

    def sizes(kind: str) -> list[str]:
        return [text(f"launch__{kind}_dim_{axis}") for axis in "xyz"]

    launch = Launch(
        number=number,
        device=parse_id("device", text("launch__device_id")),
        context=parse_id("context", text("launch__context_id")),
        stream=parse_id("stream", text("launch__stream_id")),
        kernel=clean(action.name(action.NameBase_DEMANGLED) or action.name() or "") or None,
        grid=parse_shape(sizes("grid")),
        block=parse_shape(sizes("block")),
        args=tuple((key, clean(names)) for key, names in _nvtx_ranges(action)),
    )
    for name, metric in metrics.items():
        definition = Metric(name, clean(metric.unit() or ""))
        report.rows.add(launch, definition, clean(_value_text(metric)))
        ids = metric.correlation_ids() if metric.num_instances() and metric.has_correlation_ids() else None
        for index in range(metric.num_instances()):
            report.rows.add(
                launch,
                definition,
                clean(_value_text(metric, index)),
                str(index) if ids is None else clean(_instance_name(ids.value(index))),
            )
    for result in action.rule_results_as_dicts():
        _add_advice(report, launch, result)
    report.count_kept()


def _is_utf8(text: str) -> bool:
    """Return whether the text has no half of a surrogate pair, into which the module decodes invalid bytes."""
    return not _SURROGATE.search(text)


def _clean_text(report: ReportBuilder, text: str) -> str:
    if _is_utf8(text):
        return text
    report.diagnostics.note("invalid_text")
    return _SURROGATE.sub("\ufffd", text)


def _value_text(metric: Any, index: int | None = None) -> str:  # noqa: ANN401
    value = metric.value() if index is None else metric.value(index)
    return "no data" if value is None else str(value)


def _instance_name(correlation: object) -> str:
    """Format a correlation id as ncu prints it."""
    return hex(correlation) if isinstance(correlation, int) else str(correlation)


def _nvtx_ranges(action: Any) -> tuple[tuple[str, str], ...]:  # noqa: ANN401
    """Return the NVTX ranges of the launch."""
    state = action.nvtx_state()
    domains = [state.domain_by_id(index) for index in state.domains()] if state is not None else []
    ranges = {
        "nvtx_push_pop": [f"{domain.name()}:{name}" for domain in domains for name in domain.push_pop_ranges()],
        "nvtx_start_stop": [f"{domain.name()}:{name}" for domain in domains for name in domain.start_end_ranges()],
    }
    return tuple((key, "\n".join(names)) for key, names in ranges.items() if names)


def _add_advice(report: ReportBuilder, launch: Launch, result: dict[str, Any]) -> None:
    message = result.get("rule_message") or {}
    speedup = result.get("speedup_estimation") or message.get("speedup_estimation") or {}
    kind = message.get("type", 0)
    if text := message.get("message"):
        report.advised.add(
            Advice(
                launch,
                _clean_text(report, _LINK.sub(r"\1", text)),
                _MESSAGE_KINDS[kind] if isinstance(kind, int) and 0 <= kind < len(_MESSAGE_KINDS) else "INF",
                _clean_text(report, str(result.get("rule_identifier", ""))),
                _clean_text(report, str(result.get("section_identifier", ""))),
                f"{speedup['speedup']:g}" if isinstance(speedup.get("speedup"), float | int) else "",
                _SPEEDUPS.get(speedup.get("type", 0), ""),
            )
        )
