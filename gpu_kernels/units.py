"""Sizes and slices: what a person writes, and what the pool counts in.

A *size* is text: ``0.02 V100``, ``1/20 V100``, ``2048 MiB``, ``2048 MiB V100``, ``2 V100``, and ``0.1 GPU``
where any class will do. A *slice* is a share of one GPU in MiB and thousandths, both integers. Everything
between is exact (``fractions.Fraction``), and every rounding is down, so that what fits on paper fits on
the GPU.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from gpu_kernels.errors import InvalidSize

THOUSANDTHS = 1000
"""A whole GPU's compute."""

MAX_TEXT = 64
MAX_GPUS = 1024
MAX_MIB = 16 * 1024 * 1024
ANY_CLASS = "GPU"

ALLOWED = (
    "A size is a fraction of a GPU such as '0.02 V100' or '1/20 V100' (0.001 to 1), a whole number of GPUs "
    "such as '2 V100', or memory such as '2048 MiB'."
)

_CLASS = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,31}")
_SIZE = re.compile(r"(?P<number>[^\s]+)(?:\s+(?P<unit>[^\s]+))?(?:\s+(?P<tail>.+))?", re.DOTALL)
_DECIMAL = re.compile(r"(?P<whole>[0-9]{1,9})(?:\.(?P<places>[0-9]{1,18}))?")
_RATIO = re.compile(r"(?P<over>[0-9]{1,9})/(?P<under>[0-9]{1,9})")
_MEMORY_UNITS = {"b", "byte", "bytes", "k", "kb", "kib", "m", "mb", "mib", "g", "gb", "gib", "t", "tb", "tib"}
_OTHER_UNITS = _MEMORY_UNITS | {"%", "percent", "core", "cores", "thousandth", "thousandths"}


@dataclass(frozen=True, slots=True)
class Slice:
    """A share of one GPU: memory in MiB, compute in thousandths."""

    mib: int
    thousandths: int


@dataclass(frozen=True, slots=True)
class Size:
    """What was asked for: either ``gpus`` (a fraction up to one, or a whole number) or ``mib``.

    ``gpu_class`` is None where any class will do. ``str(size)`` is the canonical text; parsing it gives the
    same size.
    """

    gpus: Fraction | None
    mib: int | None
    gpu_class: str | None

    @property
    def whole_gpus(self) -> int | None:
        """How many GPUs it takes whole, None for a part of one."""
        if self.gpus is not None and self.gpus.denominator == 1:
            return self.gpus.numerator
        return None

    @property
    def count(self) -> int:
        """How many GPUs it has slices of."""
        return self.whole_gpus or 1

    def __str__(self) -> str:
        if self.mib is not None:
            return f"{self.mib} MiB" if self.gpu_class is None else f"{self.mib} MiB {self.gpu_class}"
        assert self.gpus is not None
        return f"{_number_text(self.gpus)} {self.gpu_class or ANY_CLASS}"


def parse_size(text: str) -> Size:
    """Read a size, such as ``0.02 V100``, ``1/20 V100``, ``2048 MiB``, ``2 V100`` or ``0.1 GPU``.

    The same text mostly gives the same object, so that what is kept by size is found without a comparison.

    Raises:
        InvalidSize: It is none; the text shows what was read and what is allowed.
    """
    if not isinstance(text, str):
        raise _invalid(repr(text), "that is not text")
    if len(text) > MAX_TEXT:
        raise _invalid(text, f"it is longer than {MAX_TEXT} characters")
    return _parsed(text)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Size:
    match = _SIZE.fullmatch(text.strip(" \t"))
    if match is None:
        raise _invalid(text, "it is empty")
    unit, tail = match["unit"], match["tail"]
    number = _number(text, match["number"])
    if unit is None:
        raise _invalid(text, "it does not say of what: a GPU class or MiB")
    if unit == "MiB":
        return _memory(text, number, tail)
    if tail is not None:
        raise _invalid(text, f"{_shown(tail)} comes after its end")
    return _share(text, number, _gpu_class(text, unit))


def slice_of(size: Size, allocatable_mib: int) -> Slice:
    """The slice that ``size`` takes of each GPU with ``allocatable_mib``, rounded down.

    A size in MiB takes the share of compute that it takes of memory, at least one thousandth; one that is
    more than the GPU has gives a slice that is more than the GPU has, which then fits nowhere.

    Args:
        size: What was asked for.
        allocatable_mib: The GPU's memory less what its driver reserves, in MiB.

    Raises:
        ValueError: That memory is not positive.
    """
    if allocatable_mib <= 0:
        raise ValueError(f"allocatable memory must be positive, not {allocatable_mib}")
    if size.mib is not None:
        return Slice(size.mib, max(1, size.mib * THOUSANDTHS // allocatable_mib))
    assert size.gpus is not None
    share = min(size.gpus, Fraction(1))
    return Slice(int(share * allocatable_mib), int(share * THOUSANDTHS))


def no_more_than(size: Size, other: Size) -> bool:
    """Whether what holds ``other`` holds ``size`` too, on any GPU; False where that depends on the GPU."""
    if size.gpu_class != other.gpu_class and other.gpu_class is not None:
        return False
    if size.mib is not None and other.mib is not None:
        return size.mib <= other.mib
    return size.gpus is not None and other.gpus is not None and size.gpus <= other.gpus


def valid_class(name: str) -> bool:
    """Whether a GPU class may be called that: a name that ``parse_size`` reads back."""
    return bool(_CLASS.fullmatch(name)) and name != ANY_CLASS and name.casefold() not in _OTHER_UNITS


def thousandths_text(thousandths: int, gpu_class: str) -> str:
    """``20, "V100"`` -> ``0.02 V100``; for texts that quote sums."""
    return f"{_number_text(Fraction(thousandths, THOUSANDTHS))} {gpu_class}"


def parse_thousandths(text: str) -> tuple[int, str]:
    """``3.5 V100`` -> ``3500, "V100"``: a sum of shares, as a course's limit is; zero is one.

    The inverse of ``thousandths_text``. Raises ``InvalidSize``.
    """
    words = text.split() if len(text) <= MAX_TEXT else []
    decimal = _DECIMAL.fullmatch(words[0]) if len(words) == 2 else None
    if decimal is None or len(decimal["places"] or "") > 3 or not valid_class(words[1]):
        raise InvalidSize(
            f"The limit {_shown(text)} cannot be read.\n"
            "A limit is a number of GPUs, with up to three decimal places, and a GPU class: '0.5 V100'.",
            details={"read": text[:MAX_TEXT], "why": "not a limit"},
        )
    places = (decimal["places"] or "").ljust(3, "0")
    return int(decimal["whole"]) * THOUSANDTHS + int(places), words[1]


def _number_text(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    if THOUSANDTHS % value.denominator == 0:
        thousandths = value.numerator * (THOUSANDTHS // value.denominator)
        return f"{thousandths // THOUSANDTHS}.{thousandths % THOUSANDTHS:03d}".rstrip("0")
    return f"{value.numerator}/{value.denominator}"


def _number(text: str, word: str) -> Fraction:
    if decimal := _DECIMAL.fullmatch(word):
        places = (decimal["places"] or "").rstrip("0")
        if len(places) > 3:
            raise _invalid(text, f"{_shown(word)} is finer than a thousandth")
        value = Fraction(int(decimal["whole"] + places), 10 ** len(places))
    elif ratio := _RATIO.fullmatch(word):
        if int(ratio["under"]) == 0:
            raise _invalid(text, "it divides by zero")
        value = Fraction(int(ratio["over"]), int(ratio["under"]))
        if value.denominator > THOUSANDTHS:
            raise _invalid(text, f"{_shown(word)} is finer than a thousandth")
    elif word.startswith(("-", "\u2212")):
        raise _invalid(text, "it is negative")
    else:
        raise _invalid(text, f"{_shown(word)} is not a number here (write 0.02, 1/20 or 2)")
    if value == 0:
        raise _invalid(text, "it is zero")
    return value


def _memory(text: str, number: Fraction, gpu_class: str | None) -> Size:
    if number.denominator != 1:
        raise _invalid(text, "memory is a whole number of MiB")
    if number > MAX_MIB:
        raise _invalid(text, f"memory is at most {MAX_MIB} MiB")
    return Size(None, int(number), None if gpu_class is None else _gpu_class(text, gpu_class))


def _share(text: str, number: Fraction, gpu_class: str | None) -> Size:
    if number > 1 and number.denominator != 1:
        raise _invalid(text, "more than one GPU is taken in whole GPUs only")
    if number > MAX_GPUS:
        raise _invalid(text, f"it asks for more than {MAX_GPUS} GPUs")
    return Size(number, None, gpu_class)


def _gpu_class(text: str, word: str) -> str | None:
    if word == ANY_CLASS:
        return None
    if word.casefold() in _OTHER_UNITS:
        raise _invalid(text, f"{_shown(word)} is not a unit here; memory is in MiB")
    if not _CLASS.fullmatch(word):
        raise _invalid(text, f"{_shown(word)} is not the name of a GPU class")
    return word


def _shown(text: str) -> str:
    """What was read, safe to print: bounded, and nothing in it but printable ASCII."""
    short = text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "..."
    return ascii(short)


def _invalid(text: str, why: str) -> InvalidSize:
    return InvalidSize(
        f"The size {_shown(text)} cannot be read: {why}.\n{ALLOWED}",
        details={"read": text[:MAX_TEXT], "why": why},
    )
