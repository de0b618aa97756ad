"""The body of a sweep: that of a run with its `matrix`; checked once for REST and for the form."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail
from typing_extensions import override

from console.api.request_serializers import ENV_MAX, Problems, command_problems, env_problems
from foundation.http.serializers import StrictSerializer
from jobs import matrix as grid
from jobs.early_stop import GOALS
from jobs.matrix import MEMBERS_MAX, PARAMETER_NAME, PARAMETERS_MAX, Matrix
from jobs.serializers import TrainingRunSerializer
from jobs.specs import TrainingRunSpec
from workloads.podspec.fields import NumberField, TextField, WholeNumberField
from workloads.podspec.grammar import WORKLOAD_NAME_LENGTH_MAX, Fault

VALUE_LENGTH_MAX = 1024
NUMBER_MAX = 1e15
"""Up to here every whole number is one for sure, in whatever reads it."""
_VALUE = {
    "oneOf": [
        {"type": "string", "maxLength": VALUE_LENGTH_MAX},
        {"type": "number", "minimum": -NUMBER_MAX, "maximum": NUMBER_MAX},
        {"type": "boolean"},
    ]
}
_BOUND = {"type": "number", "minimum": -NUMBER_MAX, "maximum": NUMBER_MAX}
_PARAMETERS = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": PARAMETERS_MAX,
    "description": f"By its name, which matches `{PARAMETER_NAME.pattern}`.",
    "additionalProperties": {
        "oneOf": [
            {"type": "array", "minItems": 1, "maxItems": MEMBERS_MAX, "items": _VALUE},
            {
                "type": "object",
                "properties": {"from": _BOUND, "to": _BOUND, "step": {**_BOUND, "default": 1}},
                "required": ["from", "to"],
                "additionalProperties": False,
            },
        ]
    },
    "example": {"lr": [0.1, 0.01], "seed": {"from": 1, "to": 5}},
}


@extend_schema_field(_PARAMETERS)
class ParametersField(serializers.Field[Any, Any, Any, Any]):
    """Each parameter's values: a list of texts, numbers and flags, or a range of numbers."""

    default_error_messages = {
        "invalid": 'Write an object: {{"lr": [0.1, 0.01], "seed": {{"from": 1, "to": 5}}}}.'
    }

    @override
    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, Mapping) or not data:
            self.fail("invalid")
        if len(data) > PARAMETERS_MAX:
            raise serializers.ValidationError(
                f"A sweep has at most {PARAMETERS_MAX} parameters.", code="max_length"
            )
        refused = {
            str(name)[:80]: [_detail(fault)] for name, given in data.items() if (fault := _fault(name, given))
        }
        if refused:
            raise serializers.ValidationError(refused)
        return dict(data)

    @override
    def to_representation(self, value: Any) -> Any:
        return value


def _detail(fault: Fault) -> ErrorDetail:
    return ErrorDetail(fault.message, code=fault.code)


def _fault(name: Any, given: Any) -> Fault | None:
    if not isinstance(name, str) or not PARAMETER_NAME.fullmatch(name):
        return Fault(
            "invalid_name",
            "A parameter's name begins with a small letter, holds small letters, digits and underscores,"
            " and has at most 40 characters.",
        )
    if isinstance(given, Mapping):
        return _range_fault(given)
    if not isinstance(given, list) or not given:
        return Fault("invalid", 'Give a list of values, or a range {"from": 1, "to": 5, "step": 1}.')
    if len(given) > MEMBERS_MAX:
        return Fault("max_length", f"A parameter has at most {MEMBERS_MAX} values.")
    return next((fault for value in given if (fault := _value_fault(value))), None) or _twice(given)


def _twice(given: Sequence[Any]) -> Fault | None:
    seen: set[str] = set()
    for value in given:
        text = grid.text_of(value)
        whole = isinstance(value, float) and value.is_integer()
        if (same := str(int(value)) if whole else text) in seen:
            return Fault("duplicate", f"The value {text[:80]} is given twice.")
        seen.add(same)
    return None


def _value_fault(value: Any) -> Fault | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        if len(value) > VALUE_LENGTH_MAX or "\x00" in value or not _is_unicode(value):
            return Fault("invalid", f"A value is a text of at most {VALUE_LENGTH_MAX} characters.")
        return None
    return _number_fault(value)


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _number_fault(value: Any) -> Fault | None:
    # Compared as it is: no float holds a whole number of many digits, and NaN is no less than anything.
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= NUMBER_MAX:
        return None
    return Fault("invalid", f"A value is a text, a number up to {NUMBER_MAX:.0e}, true or false.")


def _range_fault(given: Mapping[str, Any]) -> Fault | None:
    unknown = [str(key)[:40] for key in given if key not in {"from", "to", "step"}]
    if unknown:
        return Fault("unknown_field", f"A range has from, to and step; there is no {unknown[0]!r}.")
    missing = next((key for key in ("from", "to") if given.get(key) is None), None)
    if missing is not None:
        return Fault("required", f"A range needs {missing!r}.")
    if any(_number_fault(bound) for bound in given.values() if bound is not None):
        return Fault("invalid", "The ends and the step of a range are numbers.")
    if given.get("step") == 0:
        return Fault("invalid", "The step of a range cannot be 0.")
    length = grid.range_length(given)
    if not 1 <= length <= MEMBERS_MAX:
        return Fault("out_of_range", f"1 to {MEMBERS_MAX} values are possible; this range has more or none.")
    return _twice(grid.values_of(given))


class EarlyStopSerializer(StrictSerializer):
    """By what members report with `progress/`. At least one of the two rules is needed."""

    metric = TextField(max_length=100, help_text="Its name among the reported metrics.")
    goal = serializers.ChoiceField(choices=GOALS, required=False, help_text="Which way is better; minimize.")
    target = NumberField(
        required=False, allow_null=True, help_text="Once a member reports it, the others are stopped."
    )
    worse_than_median_after = WholeNumberField(
        min_value=0,
        max_value=100,
        required=False,
        allow_null=True,
        help_text="From this percentage of progress on, a member that is worse than the median of at least three "
        "others at the same progress is stopped.",
    )

    @override
    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs.get("target") is None and attrs.get("worse_than_median_after") is None:
            raise serializers.ValidationError(
                "Give target, worse_than_median_after, or both.", code="required"
            )
        return attrs


class MatrixSerializer(StrictSerializer):
    """The values of each parameter; a member is made for every combination."""

    parameters = ParametersField()
    max_parallel = WholeNumberField(
        min_value=1,
        max_value=MEMBERS_MAX,
        required=False,
        allow_null=True,
        help_text="How many members wait for GPUs or have them at once; the others are held back. Null: all.",
    )
    early_stop = EarlyStopSerializer(required=False, allow_null=True)

    @override
    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        size = Matrix.from_json(attrs).size
        if size > MEMBERS_MAX:
            message = f"These parameters make {size} members; at most {MEMBERS_MAX} are possible."
            raise serializers.ValidationError({"parameters": [_detail(Fault("too_many", message))]})
        return attrs


class RunOrSweepSerializer(TrainingRunSerializer):
    """The body of a run; with `matrix`, of a sweep."""

    matrix = MatrixSerializer(
        required=False,
        allow_null=True,
        help_text="Makes a sweep: a run for every combination of the parameters, which stand in command, args and "
        "variables as ${{ matrix.name }}, and in the variable MATRIX_NAME.",
    )

    @property
    def matrix_asked(self) -> Matrix | None:
        """The matrix, if there is one; call after `is_valid`."""
        value = self.validated_data.get("matrix")
        return Matrix.from_json(value) if value else None

    @override
    def problems(self, body: Mapping[str, Any]) -> Problems:
        problems = super().problems(body)
        if body.get("matrix"):
            problems += matrix_problems(body, Matrix.from_json(body["matrix"]))
        return problems


class SweepPatchSerializer(StrictSerializer):
    """What may be changed of a sweep that goes on."""

    max_parallel = WholeNumberField(min_value=1, max_value=MEMBERS_MAX, allow_null=True)


def matrix_problems(body: Mapping[str, Any], asked: Matrix) -> Problems:
    """What is wrong with a matrix and its request together."""
    if problems := _bytes_problems(body, asked):
        # The longest member is not even made to be looked at.
        return problems
    return [*_name_problems(body, asked), *_placeholder_problems(body, asked), *_size_problems(body, asked)]


def _bytes_problems(body: Mapping[str, Any], asked: Matrix) -> Problems:
    request = {name: value for name, value in body.items() if name != "matrix"}
    request_bytes = len(json.dumps(request, ensure_ascii=False, default=str).encode())
    total = grid.members_bytes(asked, request_bytes=request_bytes, texts=_texts(body))
    if total <= grid.MEMBERS_BYTES_MAX:
        return []
    message = (
        f"The requests of its {asked.size} members would have {total // 2**20 + 1:,} MiB together; at most "
        f"{grid.MEMBERS_BYTES_MAX // 2**20} are possible. Bring files by source.git or a volume, or make fewer members."
    )
    return [("matrix", Fault("too_large", message))]


def _name_problems(body: Mapping[str, Any], asked: Matrix) -> Problems:
    problems: Problems = []
    last = grid.member_name(body["name"], asked.size)
    if len(last) > WORKLOAD_NAME_LENGTH_MAX:
        most = WORKLOAD_NAME_LENGTH_MAX - (len(last) - len(body["name"]))
        message = f"Members are called {last[:20]}… and so on: the name has at most {most} characters."
        problems.append(("name", Fault("max_length", message)))
    if body.get("replaces"):
        problems.append(("replaces", Fault("not_with_matrix", "A sweep takes the place of no run.")))
    own = set(grid.env_of(dict.fromkeys(asked.parameters, "")))
    problems += [
        (f"env.{index}.name", Fault("duplicate", f"{item['name']} is set by the matrix."))
        for index, item in enumerate(body.get("env") or ())
        if item["name"] in own
    ]
    return problems


def _placeholder_problems(body: Mapping[str, Any], asked: Matrix) -> Problems:
    texts = [
        *((f"command.{index}", text) for index, text in enumerate(body.get("command") or ())),
        *((f"args.{index}", text) for index, text in enumerate(body.get("args") or ())),
        *(
            (f"env.{index}.value", item.get("value") or "")
            for index, item in enumerate(body.get("env") or ())
        ),
    ]
    names = ", ".join(asked.parameters)
    return [
        (path, Fault("unknown_placeholder", f"The matrix has no parameter {name[:40]!r}. It has: {names}."))
        for path, text in texts
        for name in grid.placeholders(text)
        if name not in asked.parameters
    ]


def _size_problems(body: Mapping[str, Any], asked: Matrix) -> Problems:
    """What a member with the longest or the shortest values would be refused for by itself."""
    if any(name not in asked.parameters for text in _texts(body) for name in grid.placeholders(text)):
        return []
    own = len(body.get("env") or ())
    if own + len(asked.parameters) > ENV_MAX:
        message = f"A run has at most {ENV_MAX} variables; the matrix brings one for each parameter."
        return [("env", Fault("max_length", message))]
    found: dict[str, Fault] = {}
    for most in (max, min):
        values = {name: most(given, key=_length) for name, given in asked.parameters.items()}
        member = grid.member_spec(TrainingRunSpec.from_json(body), values, name=body["name"]).to_json()
        for path, fault in (*command_problems(member), *env_problems(member["env"])):
            field, _, place = path.partition(".")
            of_matrix = field == "env" and int(place.partition(".")[0] or 0) >= own
            said = f"With values of the matrix: {fault.message}"
            found.setdefault("matrix.parameters" if of_matrix else path, Fault(fault.code, said))
    return list(found.items())


def _length(value: grid.Value) -> int:
    return len(grid.text_of(value).encode())


def _texts(body: Mapping[str, Any]) -> list[str]:
    values = [item.get("value") or "" for item in body.get("env") or ()]
    return [*(body.get("command") or ()), *(body.get("args") or ()), *values]
