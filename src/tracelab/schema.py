"""The stored tables, declared once: Arrow types, empty tables, DuckDB comments and docs all derive from them."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
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


def columns(*lines: tuple[str, str, str]) -> tuple[Column, ...]:
    """Return nullable columns of lines with name, type and meaning."""
    return tuple(Column(*line) for line in lines)


RUN = Column("run", "text", "The execution this row belongs to; also the Hive partition.", nullable=False)


@dataclass(frozen=True)
class ComputedTable:
    """A table that Python computes from the rows of a run; the first of its columns is the run."""

    name: str
    row: str
    own: tuple[Column, ...]

    @property
    def view_columns(self) -> tuple[Column, ...]:
        """All columns, in order."""
        return (RUN, *self.own)


_IDENTITY = (
    RUN,
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

_SHAPE = columns(
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
        columns(
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
        columns(
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
            *columns(
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
            *columns(
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
        columns(
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
        columns(
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
        columns(
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
            *columns(
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
        columns(
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
            *columns(
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
        columns(
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
            *columns(
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
        columns(
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
        columns(
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
            *columns(
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
        columns(
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
        columns(
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
            *columns(
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
            *columns(
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
        columns(
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
        columns(
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
            *columns(
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
        columns(
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


def find_stored_table(name: str) -> Table:
    """Return a table that a store has as files. Raises UsageError for any other."""
    if name not in BY_NAME:
        raise UsageError(suggest_name("table", name, list(BY_NAME)))
    return BY_NAME[name]


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
