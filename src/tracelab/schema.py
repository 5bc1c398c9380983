"""The canonical schema, declared once: Arrow types, empty tables, DuckDB comments and docs all derive from it."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from operator import attrgetter
from pathlib import Path
from typing import Literal

import pyarrow as pa

from tracelab.enumerations import (
    PARALLELISMS,
    PRECISIONS,
    RUN_PROFILERS,
    RUN_STATUSES,
    SOURCE_FORMATS,
)
from tracelab.errors import UsageError, suggest_name
from tracelab.resources import QUERIES

SCHEMA_VERSION = "3.1"
"""Stores of another major version are refused; a minor version only adds tables or columns."""

DEFAULT_STORE = Path("lab")

Kind = Literal["gpu", "cpu", "event", "plain"]

ARROW_TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "text": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "ints": pa.list_(pa.int64()),
    "texts": pa.list_(pa.string()),
    "tags": pa.map_(pa.string(), pa.string()),
}
"""The short type names used below."""

DUCKDB_TYPES: dict[str, str] = {
    "bool": "boolean",
    "int32": "integer",
    "int64": "bigint",
    "double": "double",
    "text": "varchar",
    "timestamp": "timestamptz",
    "ints": "bigint[]",
    "texts": "varchar[]",
    "tags": "map(varchar, varchar)",
}


@dataclass(frozen=True)
class Column:
    """One column: its name carries the unit, `type` is a key of `ARROW_TYPES`."""

    name: str
    type: str
    doc: str
    nullable: bool = True

    @property
    def arrow(self) -> "pa.Field[pa.DataType]":
        """The column as an Arrow field."""
        return pa.field(self.name, ARROW_TYPES[self.type], nullable=self.nullable)

    @property
    def duckdb(self) -> str:
        """The column's DuckDB type."""
        return DUCKDB_TYPES[self.type]


@dataclass(frozen=True)
class Table:
    """One table: `row` describes a row; `kind` decides which shared columns it begins with.

    `capture_hint` is what to do when a store has no rows of it; `summarized_by` names the table that may hold sums of
    its events instead, as a profiler itself wrote them.
    """

    name: str
    row: str
    kind: Kind
    capture_hint: str
    own: tuple[Column, ...]
    summarized_by: str | None = None

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """All stored columns, in order."""
        return (*_IDENTITY, *_SHARED[self.kind], *self.own, *(() if self.kind == "plain" else (_ARGS,)))

    @cached_property
    def view_columns(self) -> tuple[Column, ...]:
        """The columns an analyst sees: the stored ones, and `end_ns` behind `dur_ns` where there are both times."""
        return tuple(_with_end(self.columns))

    @cached_property
    def arrow(self) -> pa.Schema:
        """The stored columns as an Arrow schema."""
        return pa.schema([column.arrow for column in self.columns])

    def empty(self) -> pa.Table:
        """The table without rows, as of a source that has none of them."""
        return self.arrow.empty_table()

    def rows(self, rows: Iterable[dict[str, object]]) -> pa.Table:
        """Build a table of this schema from literal rows; missing columns are NULL. Unknown ones raise KeyError."""
        known = {column.name for column in self.columns}
        listed = list(rows)
        for row in listed:
            if unknown := set(row) - known:
                raise KeyError(f"{self.name} has no column {sorted(unknown)}")
        return pa.Table.from_pylist(listed, schema=self.arrow)


def _with_end(columns: Iterable[Column]) -> Iterator[Column]:
    names = set()
    for column in columns:
        names.add(column.name)
        yield column
        if column.name == "dur_ns" and "start_ns" in names:
            yield Column("end_ns", "int64", "End: start_ns + dur_ns; NULL where either is.")


def _format_choices(values: tuple[str, ...]) -> str:
    """The values as a sentence: a, b or c."""
    return f"{', '.join(values[:-1])} or {values[-1]}."


def _columns(*lines: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(*line) for line in lines)


_IDENTITY = (
    Column("run", "text", "The execution this row belongs to; also the Hive partition.", nullable=False),
    Column("source", "text", "First 16 hex digits of the SHA-256 of the input file.", nullable=False),
)
_RANK = Column("rank", "int32", "Rank of the process in its job; 0 where the source does not have it.", nullable=False)
_PID = Column("pid", "int64", "Operating-system process id.")
_ARGS = Column(
    "args",
    "text",
    "JSON object of the source's arguments that no column holds, fractions as doubles; NULL when there are none.",
)
_START = Column("start_ns", "int64", "Start, in ns on the source's clock (`sources.clock`).")
_DUR = Column("dur_ns", "int64", "Duration in ns; below 0 only where the source has it so.")
_TID = Column("tid", "int64", "Operating-system thread id.")
_DEVICE = Column("device", "int32", "Ordinal of the GPU as the process sees it.")
_STREAM = Column("stream", "int64", "Stream id within its context.")
_CORRELATION = Column("correlation", "int64", "Links a launch with its GPU rows, within (source, pid).")
_EXTERNAL = Column("external_id", "int64", "Id of the framework op that was running (`ops.external_id`).")

_SHARED: dict[Kind, tuple[Column, ...]] = {
    "gpu": (
        _RANK,
        _PID,
        _DEVICE,
        Column("context", "int64", "CUDA context id."),
        _STREAM,
        _START,
        _DUR,
        _CORRELATION,
        Column("graph", "int64", "Id of the CUDA graph that launched it."),
        Column("graph_node", "int64", "Node of that graph."),
    ),
    "cpu": (_RANK, _PID, _TID, _START, _DUR),
    "event": (_RANK, _PID),
    "plain": (),
}

_SHAPE = _columns(
    ("grid_x", "int32", "Thread blocks in x."),
    ("grid_y", "int32", "Thread blocks in y."),
    ("grid_z", "int32", "Thread blocks in z."),
    ("block_x", "int32", "Threads of a block in x."),
    ("block_y", "int32", "Threads of a block in y."),
    ("block_z", "int32", "Threads of a block in z."),
)

_CAPTURE_GPU = "profile with the PyTorch profiler and ProfilerActivity.CUDA, on a machine with a GPU"
_CAPTURE_RUN = "record a run with `tracelab collect train`, and ingest its folder"

TABLES: tuple[Table, ...] = (
    Table(
        "runs",
        "one run and its settings (a view: exactly one row a run)",
        "plain",
        "ingest a trace",
        _columns(
            ("program", "text", "The program; captures of one program by several profilers share it."),
            ("workload", "text", "The collector's workload."),
            ("model", "text", "Model name."),
            ("dataset", "text", "Data set name."),
            ("image_size", "int32", "Height and width of the input images, in pixels."),
            ("batch_size", "int32", "Samples of a batch that one process's loader yields."),
            ("global_batch_size", "int32", "Samples a step over all processes."),
            ("gpus", "int32", "GPUs used."),
            ("world_size", "int32", "Processes of the job."),
            ("parallelism", "text", _format_choices(PARALLELISMS)),
            ("precision", "text", _format_choices(PRECISIONS)),
            ("optimizer", "text", "Optimizer name."),
            ("learning_rate", "double", "Learning rate at the start."),
            ("data_fraction", "double", "Share of the data set used, 0 to 1."),
            ("pin_memory", "bool", "Whether the loader pinned host memory."),
            ("workers", "int32", "Loader worker processes."),
            ("pretrained", "bool", "Whether the model began with trained weights."),
            ("epochs", "int32", "Epochs requested."),
            ("sweep", "text", "Name of the sweep this run is a cell of."),
            ("repeat", "int32", "Which repetition of the cell, from 0."),
            ("profiler", "text", _format_choices(RUN_PROFILERS)),
            ("parameters", "int64", "Parameters of the model."),
            ("parameter_bytes", "int64", "Bytes of the parameters."),
            ("flop_per_sample", "double", "Forward FLOPs of one sample (a multiply-add is two)."),
            ("status", "text", _format_choices(RUN_STATUSES)),
            ("error", "text", "The error, in one sentence."),
            ("host", "text", "Host name."),
            ("gpu", "text", "GPU model name."),
            ("driver", "text", "GPU driver version."),
            ("torch_version", "text", "PyTorch version."),
            ("cuda_version", "text", "CUDA version."),
            ("git_commit", "text", "Commit of the workload's repository."),
            ("started_at", "timestamp", "When the run began."),
            ("tags", "tags", "All other recorded settings."),
        ),
    ),
    Table(
        "sources",
        "one ingested file",
        "plain",
        "ingest a trace",
        _columns(
            ("path", "text", "Path of the file at ingest."),
            ("format", "text", _format_choices(SOURCE_FORMATS)),
            ("producer", "text", "The program that wrote the file, where the file names it."),
            ("producer_version", "text", "Its version."),
            ("sha256", "text", "SHA-256 of the file's bytes."),
            ("size_bytes", "int64", "Size of the file."),
            ("events_read", "int64", "Events found: kept and skipped ones."),
            ("events_kept", "int64", "Events that became rows."),
            ("events_skipped", "int64", "Events that could not be read."),
            ("complete", "bool", "False where the file was cut off or events were lost."),
            (
                "clock",
                "text",
                "'unix': times count from 1970; 'session': from the capture's start; 'aligned': see --aligned.",
            ),
            ("window_start_ns", "int64", "Start of the profiler's recording window."),
            ("window_dur_ns", "int64", "Length of the profiler's recording window."),
            ("reader_version", "text", "Version of the reader; a newer one replaces the source."),
            ("schema_version", "text", "Version of this schema."),
            ("ingested_at", "timestamp", "When the source became visible."),
        ),
    ),
    Table(
        "devices",
        "one GPU seen by one process",
        "plain",
        _CAPTURE_GPU,
        (
            _RANK,
            *_columns(
                ("device", "int32", "Ordinal of the GPU as the process sees it."),
                ("host", "text", "Host name."),
                ("uuid", "text", "UUID of the physical card."),
                ("bus_id", "text", "PCI bus id."),
                ("name", "text", "Model name."),
                ("compute_capability", "text", "Compute capability, as 9.0."),
                ("sm_count", "int32", "Streaming multiprocessors."),
                ("memory_bytes", "int64", "Device memory."),
                ("l2_bytes", "int64", "Second-level cache."),
                ("async_engines", "int32", "Copy engines."),
                ("max_threads_per_sm", "int32", "Resident threads a multiprocessor can hold."),
                ("spec_bandwidth_gb_per_s", "double", "Memory bandwidth by specification, in 1e9 bytes a second."),
                ("spec_clock_hz", "double", "Multiprocessor clock by specification."),
            ),
        ),
    ),
    Table(
        "kernels",
        "one kernel execution",
        "gpu",
        _CAPTURE_GPU,
        (
            Column("name", "text", "Kernel name, demangled where the source has it."),
            *_SHAPE,
            *_columns(
                ("registers", "int32", "Registers a thread."),
                ("shared_static_bytes", "int64", "Static shared memory of a block."),
                ("shared_dynamic_bytes", "int64", "Dynamic shared memory of a block."),
                ("occupancy_ratio", "double", "Achieved occupancy as the profiler estimated it, 0 to 1."),
            ),
            _EXTERNAL,
        ),
        summarized_by="summaries",
    ),
    Table(
        "memcpys",
        "one copy",
        "gpu",
        _CAPTURE_GPU,
        _columns(
            (
                "direction",
                "text",
                "HtoD, DtoH, DtoD, HtoH, PtoP, HtoA, AtoH, AtoA, AtoD, DtoA, 'UVM HtoD', 'UVM DtoH', 'UVM DtoD'; "
                "else unknown.",
            ),
            ("src_memory", "text", "Kind of memory read: Pageable, Pinned, Device, Array, Managed …"),
            ("dst_memory", "text", "Kind of memory written."),
            ("src_device", "int32", "Device read from, of a copy between devices."),
            ("dst_device", "int32", "Device written to, of a copy between devices."),
            ("size_bytes", "int64", "Bytes copied (a copy within a device moves twice as many through its memory)."),
            ("external_id", "int64", "Id of the framework op that was running (`ops.external_id`)."),
        ),
        summarized_by="summaries",
    ),
    Table(
        "memsets",
        "one memset",
        "gpu",
        _CAPTURE_GPU,
        _columns(
            ("memory", "text", "Kind of memory set."),
            ("size_bytes", "int64", "Bytes set."),
            ("value", "int64", "Value written."),
            ("external_id", "int64", "Id of the framework op that was running (`ops.external_id`)."),
        ),
        summarized_by="summaries",
    ),
    Table(
        "graph_launches",
        "one whole CUDA graph whose kernels were not recorded",
        "gpu",
        _CAPTURE_GPU,
        _columns(
            ("name", "text", "Name of the graph, where it has one."),
            ("nodes", "int64", "Nodes of the graph, where known."),
        ),
    ),
    Table(
        "collectives",
        "communication metadata of one kernel or op",
        "event",
        "profile a distributed job with the PyTorch profiler (2.1 or newer), which records them by default",
        (
            Column(
                "origin",
                "text",
                "What carried the metadata: 'kernel', 'op' or 'range', the range that launched a kernel.",
            ),
            _TID,
            _DEVICE,
            _STREAM,
            _START,
            _DUR,
            _CORRELATION,
            _EXTERNAL,
            *_columns(
                (
                    "collective",
                    "text",
                    "broadcast, all_reduce, all_gather, reduce_scatter, reduce, all_to_all, send_recv or other.",
                ),
                ("raw_name", "text", "The collective's name as the source has it."),
                ("in_elements", "int64", "Elements this rank contributes."),
                ("out_elements", "int64", "Elements this rank receives."),
                ("dtype", "text", "Element type as the source has it."),
                ("size_bytes", "int64", "Message size S of the bandwidth definitions: max(in, out) × element size."),
                ("bytes_source", "text", "Where size_bytes comes from: 'trace', 'nvtx', 'collector' …"),
                ("group_name", "text", "Process group name."),
                ("group_size", "int32", "Ranks in the group."),
                ("group_ranks", "ints", "Ranks in the group, where the source lists all of them."),
                ("comm_id", "text", "Communicator id (unsigned 64 bit, hence text)."),
                ("seq", "int64", "Sequence number within the group; sends and receives count for themselves."),
                ("root", "int32", "Root rank."),
                ("peer", "int32", "Peer rank of a send or receive."),
                (
                    "comms_id",
                    "text",
                    "Id of the operation, the same on all its ranks (unsigned 64 bit, hence text).",
                ),
                ("group_description", "text", "What the framework calls the group, as default_pg or mesh_tp."),
                ("group_start", "int32", "Lowest rank of a group whose ranks are evenly spaced."),
                ("group_stride", "int32", "Distance between the ranks of such a group."),
                ("is_p2p", "bool", "Whether it is a send or a receive; NULL where the source does not have it."),
                ("src_rank", "int32", "Rank that sends, where the source has it: of a receive."),
                ("dst_rank", "int32", "Rank that receives, where the source has it: of a send."),
            ),
        ),
    ),
    Table(
        "api_calls",
        "one runtime, driver, OSRT or library call",
        "cpu",
        _CAPTURE_GPU,
        (
            Column("api", "text", "runtime, driver, osrt, cublas, cudnn …"),
            Column("name", "text", "Function name, without version suffix."),
            _CORRELATION,
            _EXTERNAL,
            Column("return_value", "int64", "Return code."),
        ),
        summarized_by="summaries",
    ),
    Table(
        "ops",
        "one framework op",
        "cpu",
        "profile with the PyTorch profiler and ProfilerActivity.CPU; record_shapes=True adds their shapes",
        _columns(
            ("name", "text", "Op name, as aten::conv2d."),
            ("external_id", "int64", "Id that launches made inside it carry."),
            ("sequence_number", "int64", "Links a forward op with its backward op."),
            ("forward_tid", "int64", "Profiler thread number of the forward op, on a backward op."),
            ("input_shapes", "text", "JSON list of input shapes."),
            ("input_types", "text", "JSON list of input types."),
        ),
        summarized_by="summaries",
    ),
    Table(
        "annotations",
        "one NVTX, record_function or profiler-step annotation: a range or a mark",
        "event",
        "mark ranges with torch.profiler.record_function while the PyTorch profiler records",
        (
            *_columns(
                ("name", "text", "Text of the annotation."),
                ("domain", "text", "NVTX domain."),
                ("category", "text", "NVTX category, or the trace's own."),
                ("scope", "text", "'cpu', or 'gpu' for its projection onto a device."),
            ),
            _TID,
            _DEVICE,
            _STREAM,
            _START,
            Column("dur_ns", "int64", "Duration in ns; NULL for a mark, and for a range that never ended."),
            Column("payload", "text", "Payload, as JSON."),
        ),
        summarized_by="summaries",
    ),
    Table(
        "python_frames",
        "one Python call",
        "cpu",
        "profile with the PyTorch profiler and with_stack=True",
        _columns(
            ("name", "text", "Function as file(line): name, or the module's name."),
            ("frame", "int64", "Id of this frame."),
            ("parent_frame", "int64", "Id of the calling frame."),
            ("module", "int64", "Id of the nn.Module instance, on a module's frame."),
        ),
    ),
    Table(
        "memory_events",
        "one allocation or release",
        "event",
        "profile with the PyTorch profiler and profile_memory=True",
        (
            _TID,
            *_columns(
                ("time_ns", "int64", "Time, in ns on the source's clock."),
                ("device", "int32", "Ordinal of the GPU; NULL for host memory."),
                ("address", "int64", "Address of the block."),
                ("size_bytes", "int64", "Bytes: above 0 allocated, below 0 released."),
                ("allocated_bytes", "int64", "Allocated in all, after this event."),
                ("reserved_bytes", "int64", "Reserved by the allocator in all, after this event."),
            ),
        ),
    ),
    Table(
        "syncs",
        "one synchronization",
        "gpu",
        "profile with the PyTorch profiler (2.2 or newer) and ProfilerActivity.CUDA",
        _columns(
            ("kind", "text", "What waited for what, as the source names it."),
            ("event_id", "int64", "CUDA event id."),
            ("waits_for_stream", "int64", "Stream that is waited for."),
            ("waits_for_correlation", "int64", "Correlation of the event record that is waited for."),
        ),
    ),
    Table(
        "counters",
        "one sample of a counter",
        "event",
        "ingest a Chrome trace that has counter events",
        _columns(
            ("device", "int32", "Ordinal of the GPU, where it is a GPU's counter."),
            ("time_ns", "int64", "Time, in ns on the source's clock."),
            ("name", "text", "Counter name."),
            ("value", "double", "Value."),
            ("unit", "text", "Unit, where the source has one."),
        ),
    ),
    Table(
        "kernel_metrics",
        "one ncu/nvprof metric of one launch, in base units",
        "event",
        "profile single kernels with ncu, and ingest its report or the output of `ncu --csv --page raw`",
        (
            Column("launch", "int64", "Number of the launch within its report."),
            _DEVICE,
            Column("context", "int64", "CUDA context id."),
            _STREAM,
            Column("kernel", "text", "Kernel name."),
            *_SHAPE,
            *_columns(
                ("section", "text", "Section of the report."),
                ("metric", "text", "Metric name, today's."),
                ("instance", "text", "Instance of the metric, where it has several."),
                ("value", "double", "Value in base units."),
                ("text", "text", "Value, where it is not a number."),
                ("unit", "text", "Base unit: ns, byte, Hz, % …"),
                ("clock_control", "text", "base, boost or none; NULL where unknown."),
            ),
        ),
        summarized_by="summaries",
    ),
    Table(
        "summaries",
        "one row of a profiler's own summary",
        "event",
        "ingest a summary that nvprof printed, or a run folder recorded with `tracelab collect train --flops`",
        _columns(
            ("kind", "text", "Kind of summary: gpu_activities, api_calls, metrics, events, key_averages …"),
            ("name", "text", "Name of the kernel, call or metric."),
            ("device", "int32", "Ordinal of the GPU, where the summary is per device."),
            ("device_name", "text", "GPU model, where the summary is per device."),
            ("calls", "int64", "Calls."),
            ("dur_ns", "int64", "Total time."),
            ("mean_ns", "double", "Mean time a call."),
            ("min_ns", "int64", "Shortest call."),
            ("max_ns", "int64", "Longest call."),
            ("metric", "text", "Metric name."),
            ("value", "double", "Its mean."),
            ("min_value", "double", "Its minimum."),
            ("max_value", "double", "Its maximum."),
            ("unit", "text", "Its unit."),
            ("input_shapes", "text", "JSON list of input shapes."),
            ("flop", "double", "Floating-point operations."),
        ),
    ),
    Table(
        "ceilings",
        "one measured limit of a machine",
        "plain",
        "run `tracelab collect ceilings` on the machine, and ingest its folder",
        _columns(
            ("host", "text", "Host name."),
            ("device_name", "text", "GPU model, or the processor's."),
            ("uuid", "text", "UUID of the card."),
            ("metric", "text", "dram_copy, gemm_bf16, h2d_pinned …"),
            ("size_bytes", "int64", "Bytes a repetition moves or holds."),
            ("gpus", "int32", "GPUs taking part."),
            ("best", "double", "Best repetition; NULL where `skipped` has a reason."),
            ("median", "double", "Median repetition."),
            ("repeats", "int32", "Repetitions."),
            ("unit", "text", "gb_per_s, gflop_per_s or ns."),
            ("counting", "text", "What was counted, as 'read + write'."),
            ("clock_hz", "double", "Multiprocessor clock while measuring."),
            ("power_limit_w", "double", "Power limit while measuring."),
            ("sustained", "double", "Median of the repetitions after the warm-up, under continuous load."),
            ("sustained_s", "double", "Seconds that those repetitions took."),
            ("warmup_s", "double", "Seconds of the same load before them."),
            (
                "layout",
                "text",
                "NN, NT or TN of a product, as cuBLAS counts: TN is x @ weight.T of a linear layer.",
            ),
            (
                "throttle_reasons",
                "text",
                "What limited the clock, in nvidia-smi's names; 'none' for nothing.",
            ),
            ("peer_uuid", "text", "UUID of the card that a copy between two cards writes to."),
            ("skipped", "text", "Why it was not measured."),
        ),
    ),
    Table(
        "steps",
        "one training step or epoch as one rank saw it",
        "event",
        _CAPTURE_RUN,
        (
            *_columns(
                (
                    "phase",
                    "text",
                    "warmup, train, validate or epoch; or the name of a stage of a step, such as prefill or decode.",
                ),
                ("epoch", "int32", "Epoch, from 0."),
                ("step", "int64", "Number within the epoch and phase, from 0."),
            ),
            _START,
            _DUR,
            *_columns(
                ("samples", "int64", "Samples this rank processed; of tensor-parallel ranks the first counts them."),
                ("loss", "double", "Loss."),
                ("accuracy", "double", "Accuracy, 0 to 1."),
                ("data_wait_ns", "int64", "Time the step waited for the loader; on a GPU, that in which the GPU did."),
                ("profiler_state", "text", "The profiler meanwhile: off, attached, or recording."),
                ("gap_ns", "int64", "Time since the step before, which the collector took to write it down."),
            ),
        ),
    ),
    Table(
        "memory_peaks",
        "one device's peak in one step, or at failure",
        "event",
        _CAPTURE_RUN,
        _columns(
            ("device", "int32", "Ordinal of the GPU."),
            ("epoch", "int32", "Epoch, from 0."),
            ("step", "int64", "Step; NULL at failure."),
            ("allocated_bytes", "int64", "Peak allocated by the framework."),
            ("reserved_bytes", "int64", "Peak reserved by the framework."),
            ("used_bytes", "int64", "Used on the card by all processes, from NVML."),
        ),
    ),
    Table(
        "host_samples",
        "one sample of one card, or of the host",
        "event",
        _CAPTURE_RUN,
        _columns(
            ("host", "text", "Host name."),
            ("device", "int32", "Ordinal of the GPU; NULL for the host."),
            ("time_ns", "int64", "Time, in unix ns."),
            ("used_bytes", "int64", "Memory used."),
            ("total_bytes", "int64", "Total memory."),
            ("util_ratio", "double", "Utilization, 0 to 1."),
            ("power_w", "double", "Power draw; where energy is counted, the mean since the sample before."),
            ("sm_clock_hz", "double", "Multiprocessor clock."),
            ("memory_clock_hz", "double", "Memory clock."),
            ("temperature_c", "double", "Temperature."),
            ("throttle_reasons", "text", "Why the clock was held back."),
            ("rss_bytes", "int64", "Resident memory of the process."),
            ("uuid", "text", "UUID of the GPU."),
            ("energy_j", "double", "Energy that the GPU used since its driver was loaded."),
            ("cores", "int32", "Cores of the host."),
            ("own_cpu_ns", "int64", "CPU time of the run's processes on the host since the sample before."),
            ("own_wait_ns", "int64", "How long their threads could run and waited for a core since the sample before."),
        ),
    ),
    Table(
        "other_events",
        "an event of no other table",
        "event",
        "ingest a Chrome trace that has events of other tools",
        (
            *_columns(
                ("category", "text", "Category, as the source names it."),
                ("phase", "text", "Chrome trace phase: X, i, B, E, s, f, M …"),
                ("name", "text", "Event name."),
            ),
            _TID,
            Column("track", "text", "Track, as the source names it, where it is not a thread id."),
            _START,
            _DUR,
        ),
    ),
    Table(
        "diagnostics",
        "one finding of a reader",
        "plain",
        "nothing to do: no reader reported anything",
        _columns(
            ("severity", "text", "info, warning or error."),
            ("code", "text", "Short stable name."),
            ("count", "int64", "Number of occurrences."),
            ("message", "text", "The finding, in one sentence."),
            ("how_to_fix", "text", "What to do about it."),
        ),
    ),
)

BY_NAME: dict[str, Table] = {table.name: table for table in TABLES}
"""Every table by its name."""
GPU_ACTIVITY = ("kernels", "memcpys", "memsets", "graph_launches")
"""The tables of what occupies a GPU, whose rows are those of the view gpu_activity."""


@dataclass(frozen=True)
class ComputedTable:
    """A table that Python computes from the rows of a run; the first of its columns is the run."""

    name: str
    row: str
    own: tuple[Column, ...]

    @property
    def view_columns(self) -> tuple[Column, ...]:
        """All columns, in order."""
        return (_IDENTITY[0], *self.own)


@cache
def _read_query(name: str) -> str:
    """Return the SQL of a query of the library, without comments and header."""
    lines = (QUERIES / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("--"))


@dataclass(frozen=True)
class Condensation:
    """Tables that a function makes of some relations of a run, and that the store keeps where they have many rows.

    `function` is `module:name`: it takes the rows of the relations by name, and a function to call now and then, and
    returns rows by name. Later processes read these in place of the relations.
    """

    function: str
    relations: tuple[str, ...]


@dataclass(frozen=True)
class Computation:
    """Tables that one function computes, for one run at a time unless `of_many`.

    `function` is `module:name`: it takes the rows of the relations by name, the parameters, and a function to call now
    and then, which raises once the statement is interrupted; it returns the rows of each table by name, without run.
    `relations` are SQL texts that take `$run` and, where they name them, the parameters. `answers` are queries of the
    library that are relations, too, under their names. `params` are those of a query that change the result, with their
    defaults. `row_bytes` is the memory that each row of the relations needs.

    With `of_many`, it computes all runs at once: `$run` is NULL, and the rows returned have their run. With `kept`,
    which implies that, the store keeps the rows of each run until its sources change. With `scope_relations`,
    `relations` are those of the whole recording, and these, read in a scope alone, are what the function applies of it.
    `refused_scope` is the sentence for a scope that has no meaning for the tables. With `condensed`, the function may
    be given what that makes of some relations in their place.
    """

    function: str
    relations: dict[str, str]
    params: dict[str, str | int | float | bool | None]
    row_bytes: int
    tables: tuple[ComputedTable, ...]
    answers: tuple[str, ...] = ()
    of_many: bool = False
    kept: bool = False
    scope_relations: dict[str, str] = field(default_factory=dict)
    refused_scope: str | None = None
    condensed: Condensation | None = None

    @property
    def texts(self) -> dict[str, str]:
        """All relations as SQL, by name."""
        return self.relations | {name: _read_query(name) for name in self.answers}


_PATH_RELATIONS = {
    "collectives": "from path_collectives('collective_waits', 'rank_clocks', $run)",
    "gpu": "with executions as not materialized (from path_kernels($run)) from path_gpu_rows('executions', $run)",
    "cpu": "from path_cpu_rows($run)",
    "syncs": "from path_syncs($run)",
    "steps": "from path_steps($run, $step_name)",
    "apart": "select rank from processes_apart($run, null)",
    "limits": "select largest_unknown_ratio() as unknown_ratio",
}
_GRAPH = Condensation("tracelab.paths.packing:condense", ("collectives", "gpu", "cpu", "syncs", "apart"))
_PATH_SCOPE = {
    "scope": "from path_scope",
    "times": "select source, from_ns, to_ns from scope_times where run = $run",
    "starts": "from path_starts($run, $step_name)",
    "serving_steps": "from path_serving_steps($run, $step_name)",
    "lanes": "from path_lanes($run)",
}
_STEP_NAME = r"(?i)^(profiler)?step\s*#?\s*\d+$"

COMPUTATIONS: tuple[Computation, ...] = (
    Computation(
        "tracelab.paths.tables:compute_paths",
        _PATH_RELATIONS,
        {"step": None, "step_name": _STEP_NAME},
        600,
        (
            ComputedTable(
                "path_rows",
                "one stretch of a run's critical path; all stretches of a run fill its window",
                _columns(
                    ("step", "int64", "The step whose window it is; NULL for all of the recording or scope."),
                    ("number", "int64", "Place on the path, from 1."),
                    ("rank", "int32", "Rank that the stretch is charged to."),
                    ("source", "text", "The source that the row is of."),
                    ("at_ns", "int64", "Start, since the start of the window."),
                    ("dur_ns", "int64", "Length."),
                    (
                        "class",
                        "text",
                        "Class of the kernel; memcpy, memset, cuda_graph; cpu, cpu_unrecorded, data_loader, "
                        "synchronization; or of the gap before a row of a GPU: launch_latency, scheduling, unknown.",
                    ),
                    ("kind", "text", "gpu, cpu or gap."),
                    ("name", "text", "Name of the kernel, op or call; of a gap that of the row behind it."),
                    ("op", "text", "The innermost op around it, or around its launch."),
                    ("device", "int32", "Device of a GPU row."),
                    ("stream", "int64", "Stream of a GPU row."),
                    ("tid", "int64", "Thread of a CPU row."),
                    ("start_ns", "int64", "Start by the rank's own clock."),
                    (
                        "cause",
                        "text",
                        "What it waited for: launch, stream (the row before it), event, inferred_event, sync (a call "
                        "that waits for the GPU), collective (the last rank), thread (the order of its rows), handover "
                        "(another thread), backward (its forward op) or start (nothing that is known).",
                    ),
                ),
            ),
            ComputedTable(
                "path_runs",
                "one run's critical path as a whole",
                _columns(
                    ("step", "int64", "The step whose window it is; NULL for all of the recording or scope."),
                    ("window_ns", "int64", "Length of the window, or of all windows of a scope, on aligned clocks."),
                    ("span_ns", "int64", "From the start of the first window to the end of the last one."),
                    ("unknown_ns", "int64", "Time of the path of which the dependency is not known."),
                    ("ranks", "int64", "Ranks that the path may run through."),
                    ("ranks_left_out", "int64", "Ranks without a clock in common with these."),
                    (
                        "clamped",
                        "int64",
                        "Rows that start before what they waited for had ended, by noise of the clocks.",
                    ),
                    ("last_rank", "int32", "The rank that the path ends on."),
                    ("late_rank", "int32", "The rank that the path begins on, where its recording begins late."),
                    ("late_ns", "int64", "How long the path begins with time before that recording: it is unknown."),
                    (
                        "unexplained_ns",
                        "int64",
                        "Of unknown_ns, time of threads of which nothing recorded shows if they worked or waited, or "
                        "what they waited for.",
                    ),
                    ("unexplained_reason", "text", "Which part of the window that is, and what to record; else NULL."),
                    ("clocks_reason", "text", "What shows that the clocks of CPU and GPU are apart; else NULL."),
                ),
            ),
        ),
        scope_relations=_PATH_SCOPE,
        condensed=_GRAPH,
    ),
    Computation(
        "tracelab.paths.what_if:compute_what_if",
        _PATH_RELATIONS | {"modules": "from path_modules($run, $module)"},
        {
            "change": None,
            "factor": None,
            "class": None,
            "op": None,
            "kernel": None,
            "layer": None,
            "module": None,
            "of_rank": None,
            "collective": None,
            "step": None,
            "step_name": _STEP_NAME,
        },
        900,
        (
            ComputedTable(
                "what_if_classes",
                "one class on a run's critical path, as recorded and after the change of a query what_if",
                _columns(
                    ("class", "text", "Class, as in `path_rows`."),
                    ("before_ns", "int64", "Its time on the path of the recording."),
                    ("after_ns", "int64", "Its time on the path after the change; NULL where that is refused."),
                ),
            ),
            ComputedTable(
                "what_if_runs",
                "one run with the time that it would take after the change of a query what_if",
                _columns(
                    ("window_ns", "int64", "Length of the window as recorded."),
                    ("replayed_ns", "int64", "The same by a replay without a change."),
                    ("after_ns", "int64", "The same after the change; NULL where that is refused."),
                    ("changed_rows", "int64", "Stretches of threads and rows of GPUs that the filters choose."),
                    ("reason", "text", "Why it is refused."),
                    ("ranks_left_out", "int64", "Ranks without a clock in common with the others."),
                ),
            ),
        ),
        scope_relations=_PATH_SCOPE,
        condensed=_GRAPH,
    ),
    Computation(
        "tracelab.paths.hta:compute_hta_paths",
        {"events": "from hta_path_events($run)"},
        {"in_annotation": "", "instance": 0},
        2500,
        (
            ComputedTable(
                "hta_path_edges",
                "one edge of a rank's critical path as HTA defines it",
                _columns(
                    ("rank", "int32", "Rank of the process."),
                    ("number", "int64", "Place on the path, from 1."),
                    (
                        "type",
                        "text",
                        "operator, dependency, kernel_launch_delay, kernel_kernel_delay or sync_dependency.",
                    ),
                    ("bound_by", "text", "What HTA takes the edge to be bound by; NULL for edges without weight."),
                    ("dur_ns", "int64", "Weight."),
                    ("name", "text", "Name of the event that the edge begins at."),
                    ("path_nodes", "int64", "Nodes on the path of the rank."),
                ),
            ),
        ),
        refused_scope="critical_path as HTA defines it takes no scope: its path is that of one instance of a range; "
        "choose that with --in-annotation and --instance, or leave out --like",
    ),
    Computation(
        "tracelab.store.rollups:compute_rollups",
        {
            "described": "from run_facts($run)",
            "files": "from source_files($run)",
            "cards": "select run, rank, device, host, uuid, name from devices where matches(run, $run)",
            "speeds": "select run, samples_per_s from run_speeds where matches(run, $run)",
            "trained": "select run, rank, dur_ns from steps where phase = 'train' and matches(run, $run)",
        },
        {"rank": None, "device": None, "skip": 0, "step_name": _STEP_NAME},
        400,
        (
            ComputedTable(
                "rollup_runs",
                "one run in short: settings, files, speed",
                _columns(
                    ("began_at", "timestamp", "When it began."),
                    (
                        "began_from",
                        "text",
                        "Where that is from: started_at, or recording, the first kernel or window; NULL: not known.",
                    ),
                    ("host", "text", "Its hosts, each once; of more than three the first and how many more."),
                    ("hosts", "int64", "How many hosts are known."),
                    ("gpu", "text", "Its GPUs, each model once."),
                    ("program", "text", "The program, else the collector's workload."),
                    ("model", "text", "Model name."),
                    ("world_size", "int32", "Processes of the job."),
                    ("global_batch_size", "int32", "Samples a step over all processes."),
                    ("precision", "text", "Precision."),
                    ("parallelism", "text", "Parallelism."),
                    ("git_commit", "text", "Commit of the workload's repository."),
                    ("status", "text", "How the run ended, where it was recorded."),
                    ("files", "int64", "Files."),
                    ("events_skipped", "int64", "Events of these files that could not be read."),
                    ("incomplete", "int64", "Files that were cut off or lost events."),
                    ("samples_per_s", "double", "Samples a second, as the run wrote them down."),
                ),
            ),
            ComputedTable(
                "rollup_ranks",
                "one rank and device of a run, in short",
                _columns(
                    ("rank", "int32", "Rank of the process."),
                    ("device", "int32", "Ordinal of the GPU; NULL without."),
                    ("host", "text", "Host name."),
                    ("uuid", "text", "UUID of the physical card."),
                    ("window_ns", "int64", "As in gpu_breakdown, as are the next four, which add up to it."),
                    ("compute_ns", "int64", "Time of compute."),
                    ("exposed_comm_ns", "int64", "Time of exposed communication."),
                    ("exposed_memory_ns", "int64", "Time of exposed copies."),
                    ("idle_ns", "int64", "Time in which nothing ran."),
                    ("kernel_sum_ns", "int64", "Durations of all kernels, added up."),
                    ("unclassified_ns", "int64", "Those of kernels that no rule matches."),
                    ("steps", "int64", "Steps of step_breakdown, else training steps that a run folder records."),
                    ("step_ns", "int64", "Median length of a step, rounded down."),
                    (
                        "step_compute_ns",
                        "int64",
                        "Median of compute_ns of a step, rounded down; NULL where no rows of steps are known.",
                    ),
                    (
                        "collectives",
                        "int64",
                        "As in stragglers, as are the next seven, of the rank: only in the row of its first device.",
                    ),
                    ("collective_ns", "int64", "Durations of these collectives."),
                    ("wait_ns", "int64", "Waiting for the last rank."),
                    ("exposed_wait_ns", "int64", "The part in which nothing computes."),
                    ("times_last", "int64", "Collectives that the rank started last."),
                    ("caused_wait_ns", "int64", "Waits of other ranks in these."),
                    ("removable_ns", "int64", "What those would be shorter by."),
                    ("lateness_ns", "int64", "Entries less the median entry of the other ranks, added up."),
                ),
            ),
            ComputedTable(
                "rollup_steps",
                "one step of a rank and device, in short",
                _columns(
                    ("rank", "int32", "Rank of the process."),
                    ("device", "int32", "Ordinal of the GPU; NULL without."),
                    ("step", "int64", "Number of the step."),
                    ("step_ns", "int64", "As in step_breakdown, as are the others."),
                    ("compute_ns", "int64", "Time of compute."),
                    ("exposed_comm_ns", "int64", "Time of exposed communication."),
                    ("exposed_memory_ns", "int64", "Time of exposed copies."),
                    ("other_steps_ns", "int64", "Time of rows of other steps."),
                    ("idle_ns", "int64", "Time in which nothing ran."),
                    ("cpu_ns", "int64", "The step's range on the host."),
                    ("kernels", "int64", "Kernels of the step."),
                ),
            ),
        ),
        ("gpu_breakdown", "step_breakdown", "stragglers"),
        of_many=True,
        kept=True,
    ),
    Computation(
        "tracelab.change_points:compute_segments",
        {"points": "from run_points('rollup_runs', 'rollup_ranks', $metric, $series_name)"},
        {"metric": "step_ns", "series_name": None, "alpha": 0.01, "step_name": _STEP_NAME},
        400,
        (
            ComputedTable(
                "run_segments",
                "one run of a series with the stretch between two changes that it belongs to",
                _columns(
                    ("place", "int64", "Place of the run in its series, from 1, in the order of time."),
                    ("segment", "int64", "Number of the stretch, from 1."),
                    ("chance", "double", "Of the first run of a stretch the chance of such a change; else NULL."),
                ),
            ),
        ),
        of_many=True,
    ),
)
"""Tables that Python computes; a session computes them once a text names one."""

REPLAYED_GAINS = Computation(
    "tracelab.paths.gains:compute_gains",
    _PATH_RELATIONS,
    {"changes": None, "step_name": _STEP_NAME},
    900,
    (),
    scope_relations=_PATH_SCOPE,
    condensed=_GRAPH,
)
"""What a run gains by several changes of what_if; no text names it."""

COMPUTED_TABLES: dict[str, ComputedTable] = {table.name: table for each in COMPUTATIONS for table in each.tables}
"""Every computed table by its name."""


SHARED_RELATIONS = frozenset(map(attrgetter("stem"), (QUERIES / "shared").glob("*.sql")))
"""The names of relations that several queries read: see `tracelab.store.shared_relations`."""


def names_computed(text: str) -> bool:
    """Return whether a SQL text names a computed table or a shared relation, which a session makes before it runs."""
    return not words_of(text).isdisjoint(COMPUTED_TABLES.keys() | SHARED_RELATIONS)


def named_computations(text: str) -> list[Computation]:
    """Return the computations whose tables a SQL text names, in any case."""
    words = words_of(text)
    return [each for each in COMPUTATIONS if any(table.name in words for table in each.tables)]


def words_of(text: str) -> set[str]:
    """Return the words of a SQL text in lower case, among them the names of the tables that it reads."""
    return set(re.findall(r"\w+", text.lower()))


def described(name: str | None = None) -> pa.Table:
    """Return the tables with what a row of each is, or the columns of one table with types and meanings."""
    if name is None:
        listed: list[Table | ComputedTable] = [*TABLES, *COMPUTED_TABLES.values()]
        return pa.Table.from_pylist([{"table": table.name, "row": table.row} for table in listed])
    columns = find_table(name).view_columns
    return pa.Table.from_pylist(
        [{"column": column.name, "type": column.duckdb, "meaning": column.doc} for column in columns]
    )


def find_stored_table(name: str) -> Table:
    """Return a table that a store has as files. Raises UsageError for any other."""
    if name not in BY_NAME:
        raise UsageError(suggest_name("table", name, list(BY_NAME)))
    return BY_NAME[name]


def find_table(name: str) -> Table | ComputedTable:
    """Return a table, stored or computed, by its name. Raises UsageError for an unknown one."""
    table = BY_NAME.get(name) or COMPUTED_TABLES.get(name)
    if table is None:
        raise UsageError(suggest_name("table", name, [*BY_NAME, *COMPUTED_TABLES]))
    return table


def store_path(given: Path | str | None) -> Path:
    """Return the store to use: the given path, else $TRACELAB_STORE, else ./lab."""
    return Path(store_address(given))


def store_address(given: Path | str | None) -> Path | str:
    """Return the store to use as `store_path` does; the URL of one in object storage is text."""
    place = given or os.environ.get("TRACELAB_STORE") or DEFAULT_STORE
    if not isinstance(place, str) or "://" not in place:
        return Path(place)
    from tracelab.file_urls import is_file_url, parse_file_url

    return parse_file_url(place) if is_file_url(place) else place
