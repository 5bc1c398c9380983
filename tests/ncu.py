"""Small reports of ncu, written as ncu writes them, with our own kernels in them."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

HOST = "node17"
PROCESS = "train.py"
SECTION = "Command line profiler metrics"
_RULES = ("Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup")


@dataclass(frozen=True)
class Kernel:
    """One profiled launch."""

    name: str = "axpy(float *, float)"
    id: int = 0
    pid: int = 4242
    context: str = "1"
    stream: str = "7"
    block: str = "(128, 1, 1)"
    grid: str = "(64, 2, 1)"
    device: str = "0"
    cc: str = "8.0"

    def numbered(self, number: int) -> "Kernel":
        return replace(self, id=number)

    @property
    def cells(self) -> dict[str, str]:
        """Its columns in a CSV page."""
        return {
            "ID": str(self.id),
            "Process ID": str(self.pid),
            "Process Name": PROCESS,
            "Host Name": HOST,
            "Kernel Name": self.name,
            "Context": self.context,
            "Stream": self.stream,
            "Block Size": self.block,
            "Grid Size": self.grid,
            "Device": self.device,
            "CC": self.cc,
        }


@dataclass(frozen=True)
class Cell:
    """One metric as a details page prints it."""

    metric: str
    unit: str
    value: str
    section: str = SECTION
    item: str = ""


@dataclass(frozen=True)
class Rule:
    """One message of a rule."""

    name: str
    kind: str
    text: str
    section: str = "SpeedOfLight"
    gain_kind: str = ""
    gain: str = ""


Row = tuple[Kernel, Cell | Rule]


def details_csv(rows: Sequence[Row], *, separator: str = ",", without: Sequence[str] = ()) -> str:
    """The page `details`; rows of metrics end early where rules have columns, as ncu's do."""
    ruled = any(isinstance(what, Rule) for _, what in rows)
    items = ["Body Item Label"] if any(isinstance(what, Cell) and what.item for _, what in rows) else []
    columns = ["Section Name", *items, "Metric Name", "Metric Unit", "Metric Value"]
    header = [*Kernel().cells, *columns, *(_RULES if ruled else ())]
    lines = [_line([name for name in header if name not in without], separator)]
    for kernel, what in rows:
        cells = kernel.cells | _cells(what)
        fields = [cells.get(name, "") for name in header if name not in without]
        if ruled and isinstance(what, Cell):
            lines.append(_line(fields[: -len(_RULES)], separator) + separator)
        else:
            lines.append(_line(fields, separator))
    return "\n".join(lines) + "\n"


def raw_csv(
    units: Mapping[str, str], launches: Sequence[tuple[Kernel, Sequence[str]]], *, without: Sequence[str] = ()
) -> str:
    """The page `raw`: metrics are columns, their units the second row."""
    identity = [name for name in Kernel().cells if name not in without]
    lines = [_line([*identity, *units], ","), _line([*[""] * len(identity), *units.values()], ",")]
    lines += [_line([*(kernel.cells[name] for name in identity), *values], ",") for kernel, values in launches]
    return "\n".join(lines) + "\n"


def console_text(rows: Sequence[Row], *, widths: tuple[int, int, int] = (70, 15, 30), headings: bool = False) -> str:
    """What ncu prints without --csv: old versions in columns of 70, 15 and 30 characters and without headings."""
    text, last, section = [], None, None
    for kernel, what in rows:
        if last is None or kernel.pid != last.pid:
            text.append(f"[{kernel.pid}] {PROCESS}@{HOST}")
        if kernel != last:
            text.append(_closed(section, widths) + _launch_line(kernel))
            last, section = kernel, None
        if isinstance(what, Rule):
            text.append(_closed(section, widths) + f"    {what.kind:<5} {what.text}\n")
            section = None
            continue
        if what.section != section:
            rule = "    " + " ".join("-" * width for width in widths)
            title = [f"{_closed(section, widths)}    Section: {what.section}", rule]
            text += (
                [*title, _table_line("Metric Name", "Metric Unit", "Metric Value", widths), rule] if headings else title
            )
            section = what.section
        text.append(_table_line(what.metric, what.unit, what.value, widths))
    return "\n".join([*text, _closed(section, widths)]) + "\n"


def golden_roofline() -> str:
    """A details page whose roofline can be worked out by hand: 344.19 GFLOP/s at 345.14 GB/s, intensity 0.99726.

    (158.12 + 1.97 + 0) operations a cycle × 2.15 GHz; ceilings 43,520 × 2.15 GHz and 128 B × 13.72 GHz.
    """
    kernel = Kernel("saxpy(int, float, float *, float *)", cc="12.0")
    chart, peak, point = (
        "GPU Speed Of Light Roofline Chart",
        "Single Precision Roofline",
        "Single Precision Achieved Value",
    )
    cells = [
        Cell("dram__bytes_read.sum", "Mbyte", "2.33"),
        Cell("Duration", "us", "6.75", "GPU Speed Of Light Throughput"),
        Cell("Theoretical Predicated-On FFMA Operations", "inst", "43,520", chart, peak),
        Cell("SM Frequency", "Ghz", "2.15", chart, peak),
        Cell("Theoretical DRAM Bytes Accessible", "byte/cycle", "128", chart, peak),
        Cell("DRAM Frequency", "Ghz", "13.72", chart, peak),
        Cell("Predicated-On FADD Thread Instructions Executed Per Cycle", "inst/cycle", "1.97", chart, point),
        Cell("Predicated-On FMUL Thread Instructions Executed Per Cycle", "inst/cycle", "0", chart, point),
        Cell("Predicated-On FFMA Operations Per Cycle", "inst", "158.12", chart, point),
        Cell("SM Frequency", "Ghz", "2.15", chart, point),
        Cell("DRAM Bandwidth", "Gbyte/s", "345.14", chart, point),
    ]
    return details_csv([(kernel, cell) for cell in cells])


def _cells(what: Cell | Rule) -> dict[str, str]:
    if isinstance(what, Cell):
        names = ("Metric Name", "Metric Unit", "Metric Value", "Section Name", "Body Item Label")
        return dict(zip(names, (what.metric, what.unit, what.value, what.section, what.item), strict=True))
    values = (what.name, what.kind, what.text, what.gain_kind, what.gain)
    return {"Section Name": what.section, **dict(zip(_RULES, values, strict=True))}


def _line(fields: Sequence[str], separator: str) -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=separator, quoting=csv.QUOTE_ALL, lineterminator="").writerow(fields)
    return out.getvalue()


def _launch_line(kernel: Kernel) -> str:
    shape = f" {kernel.grid}x{kernel.block}" if kernel.grid else ""
    device = f", Device {kernel.device}, CC {kernel.cc}" if kernel.device else ""
    return f"  {kernel.name}{shape}, Context {kernel.context}, Stream {kernel.stream}{device}"


def _table_line(name: str, unit: str, value: str, widths: tuple[int, int, int]) -> str:
    return f"    {name:<{widths[0]}} {unit:>{widths[1]}} {value:>{widths[2]}}"


def _closed(section: str | None, widths: tuple[int, int, int]) -> str:
    return "" if section is None else "    " + " ".join("-" * width for width in widths) + "\n\n"
