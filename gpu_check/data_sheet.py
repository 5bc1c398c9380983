"""Read the data sheets of cards from the SQL of the query library, where duckdb is not installed."""

import re
from dataclasses import dataclass
from pathlib import Path

SPECIFICATIONS = Path(__file__).parents[1] / "queries" / "lib" / "42_peaks.sql"
_CARD = re.compile(r"\(\d+, '([^']+)', '([\d.]+)', (\d+), ([\d.e]+), ([\d.e]+), ([\d.]+), (\d+)\)")
_RATES = re.compile(r"\('(\d+\.\d)', ((?:\d+|null)(?:, (?:\d+|null))*)\)")
_COLUMNS = re.compile(r"as chips\(cc, ([^)]+)\)")
_MAKER = re.compile(r"^(?:NVIDIA |Tesla |GeForce )+")


@dataclass(frozen=True)
class Specified:
    """A rate by a data sheet, in GB/s or GFLOP/s, and the clock of the multiprocessors that it is for."""

    rate: float
    clock_hz: float | None = None


def specified_rates(card: str) -> dict[str, Specified]:
    """Return the rates of a card by its data sheet, as specified_ceilings does; empty if the card is not listed.

    Keys are dram and the precisions.
    """
    text = SPECIFICATIONS.read_text("utf-8")
    name = _MAKER.sub("", card)
    found = next((each.groups() for each in _CARD.finditer(text) if re.fullmatch(each[1], name)), None)
    columns = _COLUMNS.search(text)
    if found is None or columns is None:
        return {}
    _, capability, sms, clock, tensor_clock, tensor_share, bandwidth = found
    rates = next(each[2].split(", ") for each in _RATES.finditer(text) if each[1] == capability)
    result = {"dram": Specified(float(bandwidth))}
    for precision, rate in zip(columns[1].split(", "), rates, strict=True):
        if rate != "null":
            hertz, share = float(clock), 1.0
            if precision.startswith("tensor") and precision != "tensor_fp64":
                hertz, share = float(tensor_clock), 1.0 if precision == "tensor_int8" else float(tensor_share)
            result[precision] = Specified(int(sms) * int(rate) * hertz * share / 1e9, hertz)
    return result
