"""The matrix of a sweep: which values its parameters take, and the request of each member. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from jobs.early_stop import EarlyStop
from jobs.specs import TrainingRunSpec
from workloads.podspec.specs import EnvVar

MEMBERS_MAX = 1000
MEMBERS_BYTES_MAX = 16 * 2**20
"""Of the requests of all members together: each has its own, with the files that all of them have."""
PARAMETERS_MAX = 16
PARAMETER_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
ENV_PREFIX = "MATRIX_"
PLACEHOLDER = re.compile(r"\$\{\{\s*matrix\.([A-Za-z0-9_.-]*)\s*\}\}")
Value = str | int | float | bool
Parameters = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Values of each parameter, how many members run at once, and when members are stopped early."""

    parameters: Mapping[str, Sequence[Value]]
    max_parallel: int | None = None
    early_stop: EarlyStop | None = None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Matrix:
        """Of a matrix that `MatrixSerializer` has checked."""
        return cls(
            parameters={name: values_of(given) for name, given in value["parameters"].items()},
            max_parallel=value.get("max_parallel"),
            early_stop=EarlyStop.from_json(value.get("early_stop")),
        )

    @property
    def size(self) -> int:
        """How many members there are."""
        return prod(len(values) for values in self.parameters.values())

    def members(self) -> Iterator[Parameters]:
        """The parameters of each member; the last parameter changes first."""
        for values in product(*self.parameters.values()):
            yield dict(zip(self.parameters, values, strict=True))


def values_of(given: Sequence[Value] | Mapping[str, Any]) -> list[Value]:
    """The list itself, or the numbers of a range `{"from", "to", "step"}`, both ends included."""
    if not isinstance(given, Mapping):
        return list(given)
    return [_number(number) for number in _range(given)]


def range_length(given: Mapping[str, Any]) -> int:
    """How many numbers a range has, without making them; 0 where its step leads away from its end."""
    start, end, step = _bounds(given)
    return (end - start) // step + 1 if (end - start) * step >= 0 else 0


def _bounds(given: Mapping[str, Any]) -> tuple[Fraction, Fraction, Fraction]:
    step = given.get("step")
    # By its digits: 0.1 three times is 0.3.
    return (
        Fraction(str(given["from"])),
        Fraction(str(given["to"])),
        Fraction(str(1 if step is None else step)),
    )


def _range(given: Mapping[str, Any]) -> Iterator[Fraction]:
    start, _, step = _bounds(given)
    return (start + step * index for index in range(range_length(given)))


def _number(number: Fraction) -> int | float:
    return int(number) if number.denominator == 1 else float(number)


def member_name(name: str, number: int) -> str:
    """The name of a member; numbers begin at 1."""
    return f"{name}-{number}"


def text_of(value: Value) -> str:
    """A value as a program reads it: numbers and true as JSON has them."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def env_of(parameters: Parameters) -> dict[str, str]:
    """The variables by which a member knows its parameters."""
    return {f"{ENV_PREFIX}{name.upper()}": text_of(value) for name, value in parameters.items()}


def placeholders(text: str) -> list[str]:
    """Names that stand in `${{ matrix.name }}` in a text."""
    return PLACEHOLDER.findall(text)


def filled(text: str, parameters: Parameters) -> str:
    """The text with values in the place of placeholders."""
    return PLACEHOLDER.sub(lambda found: text_of(parameters[found.group(1)]), text)


def members_bytes(matrix: Matrix, *, request_bytes: int, texts: Iterable[str]) -> int:
    """About how many bytes the requests of all members have together; it is reckoned, and none is made.

    `request_bytes` is the length of the one that they are made of, `texts` are those of it that placeholders stand in.
    """
    uses = Counter(name for text in texts for name in placeholders(text))
    total = request_bytes * matrix.size
    for name, given in matrix.parameters.items():
        once = sum(len(text_of(value).encode()) for value in given)
        total += once * (matrix.size // len(given)) * (uses[name] + 1)
    return total


def member_spec(spec: TrainingRunSpec, parameters: Parameters, *, name: str) -> TrainingRunSpec:
    """The request of one member: values stand in its command, arguments and variables, and in variables of their own."""
    own = tuple(EnvVar(name, value) for name, value in env_of(parameters).items())
    env = tuple(
        replace(variable, value=filled(variable.value, parameters)) if variable.value else variable
        for variable in spec.env
    )
    return replace(
        spec,
        name=name,
        command=tuple(filled(text, parameters) for text in spec.command),
        args=tuple(filled(text, parameters) for text in spec.args),
        env=(*env, *own),
    )
