"""Convert quantities that NVIDIA's tools print to base units: ns, byte, Hz, and per second for rates."""

import re
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache

_EXACT = Context(prec=400, traps=[])  # no product of a printed number and a power of ten needs more digits
_PREFIXES = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "e": 6}
_BYTES = re.compile(r"([kmgtpe]?)(i?)(?:bytes?|b)", re.IGNORECASE)
_HERTZ = re.compile(r"([kmgt]?)(?:hz|hertz)", re.IGNORECASE)
_TIME = re.compile(r"(n|u|µ|μ|m|)(?:s|sec|seconds?)")
_NS_PER = {"n": 1, "u": 10**3, "µ": 10**3, "μ": 10**3, "m": 10**6, "": 10**9}
_COUNTED = re.compile(r"([KMGTP])(cycle|inst|sector|request|warp|thread|block|wavefront|transaction)s?")
_CYCLES_PER_SECOND = ("cycle/s", "cycles/s")


@dataclass(frozen=True)
class Scale:
    """How to convert a unit to its base unit: the factor, and the base unit's name; None where it has no name."""

    factor: Decimal
    unit: str | None


def to_base_unit(value: Decimal, unit: str, *, kilo: int = 1000) -> tuple[Decimal, str | None]:
    """Return a value in base units, exactly. `kilo` is the K of byte units: 1000 for ncu, 1024 for nvprof."""
    scale = parse_unit(unit, kilo=kilo)
    return apply_scale(value, scale), scale.unit


def apply_scale(value: Decimal, scale: Scale) -> Decimal:
    """Multiply a value by the factor of a scale, exactly."""
    return _EXACT.multiply(value, scale.factor)


@lru_cache(maxsize=4096)
def parse_unit(unit: str, *, kilo: int = 1000) -> Scale:
    """Return the scale of a unit; an unknown unit is its own base unit."""
    amount, *per = (part.strip() for part in unit.strip().split("/"))
    scale = _parse_amount(amount, kilo)
    factor, names = scale.factor, [scale.unit or ("1" if per else "")]
    for part in per:
        divisor, name = _parse_divisor(part, kilo)
        if _EXACT.multiply(_EXACT.divide(factor, divisor), divisor) != factor:  # a third of something has no last digit
            return Scale(Decimal(1), unit.strip())
        factor = _EXACT.divide(factor, divisor)
        names.append(name)
    name = "/".join(names)
    return Scale(_normalize(factor), "Hz" if name in _CYCLES_PER_SECOND else name or None)


def _parse_amount(unit: str, kilo: int) -> Scale:
    """Return the scale of a numerator, or of a unit that is no fraction."""
    if match := _BYTES.fullmatch(unit):
        return Scale(Decimal(1024 if match[2] else kilo) ** _PREFIXES[match[1].lower()], "byte")
    if match := _HERTZ.fullmatch(unit):
        return Scale(Decimal(1000) ** _PREFIXES[match[1].lower()], "Hz")
    if match := _TIME.fullmatch(unit):
        return Scale(Decimal(_NS_PER[match[1]]), "ns")
    if match := _COUNTED.fullmatch(unit):
        return Scale(Decimal(1000) ** _PREFIXES[match[1].lower()], match[2])
    return Scale(Decimal(1), unit or None)


def _parse_divisor(unit: str, kilo: int) -> tuple[Decimal, str]:
    """Return the factor and base unit of a divisor; times become seconds, because rates are per second."""
    if match := _TIME.fullmatch(unit):
        return Decimal(_NS_PER[match[1]]).scaleb(-9), "s"
    scale = _parse_amount(unit, kilo)
    return scale.factor, scale.unit or ""


def _normalize(factor: Decimal) -> Decimal:
    """Return a factor without trailing zeros behind the point, so that equal factors look alike."""
    return factor.quantize(Decimal(1)) if factor == factor.to_integral_value() else factor.normalize()
