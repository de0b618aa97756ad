"""Kubernetes quantities (`500m`, `2Gi`, `1e3`), read exactly: Decimal in, Decimal out, never a float.

Grammar: apimachinery/pkg/api/resource/quantity.go. A number of at most 2^63-1 in size, with one suffix.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal

_GRAMMAR = re.compile(
    r"(?P<number>[+-]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40}))"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?",
    re.ASCII,
)
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
# Wide enough that no product of an accepted number and suffix is ever rounded.
_EXACT = Context(prec=200)
_LARGEST = Decimal(2**63 - 1)


def parse(text: str | int) -> Decimal:
    """The exact value of a quantity in base units (bytes, cores, pieces).

    Raises ValueError with a sentence for a person if `text` is not a quantity.
    """
    match = _GRAMMAR.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{str(text)[:40]!r} is not a quantity; write for example 500m, 4, 1.5 or 16Gi")
    number, suffix = Decimal(match["number"]), match["suffix"] or ""
    if suffix in _BINARY:
        value = _EXACT.multiply(number, Decimal(_BINARY[suffix]))
    else:
        power = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
        value = number.scaleb(power, context=_EXACT)
    if abs(value) > _LARGEST:
        raise ValueError(f"{str(text)[:40]!r} is larger than any quantity may be")
    return value


def validate(text: str | int) -> str | None:
    """None if `text` is a quantity that may be requested (zero or more), else a sentence saying why not."""
    try:
        value = parse(text)
    except ValueError as error:
        return str(error)
    return "a quantity must not be negative" if value < 0 else None
