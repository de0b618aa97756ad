"""Requests that are filled in instead of typed: one form a protocol, each making a path and a JSON body. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from foundation.errors import Invalid

RAW: Final = "raw"
OPEN_INFERENCE: Final = "v2"
CHAT: Final = "chat"
PREDICTIONS: Final = "predictions"
LABELS: Final[Mapping[str, str]] = {
    RAW: "Raw",
    OPEN_INFERENCE: "Tensors (V2)",
    CHAT: "Chat (OpenAI)",
    PREDICTIONS: "Predictions (TorchServe)",
}
INPUTS_MAX: Final = 16
MODELS_MAX: Final = 20
WHOLE: Final = frozenset({"INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"})
DATATYPES: Final = ("FP32", "FP64", "FP16", "BF16", *sorted(WHOLE), "BOOL", "BYTES")
_EXAMPLES: Final[Mapping[str, Mapping[str, str]]] = {
    OPEN_INFERENCE: {"input-0-name": "INPUT0", "input-0-shape": "1, 4", "input-0-data": "0, 0, 0, 0"},
    CHAT: {"message": "Say hello."},
    PREDICTIONS: {"data": '{"data": [0, 0, 0, 0]}'},
}
_BOOL: Final = {"true": True, "1": True, "false": False, "0": False}
_SEPARATORS = re.compile(r"[\s,;]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    path: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One input as it stands in the form: all of it text."""

    name: str
    datatype: str = "FP32"
    shape: str = ""
    data: str = ""


def modes_of(protocol: str) -> list[str]:
    """The forms that make sense for a protocol, which is empty if it is not known; the likeliest first, raw always works."""
    return [protocol, RAW] if protocol else [RAW, OPEN_INFERENCE, CHAT]


def build(mode: str, values: Mapping[str, str]) -> Request:
    """The request that a filled form means. Raises Invalid, naming the field."""
    if mode == OPEN_INFERENCE:
        return _open_inference(values)
    if mode == CHAT:
        return _chat(values)
    if mode == PREDICTIONS:
        return _predictions(values)
    raise Invalid.of_field("mode", f"There is no such form. There is: {', '.join(LABELS)}.")


def example_of(protocol: str, model: str) -> Request | None:
    """A request such as servers of the protocol answer; None for one that is not known."""
    return build(protocol, {"model": model, **_EXAMPLES[protocol]}) if protocol else None


def example_values(protocol: str) -> Mapping[str, str]:
    """What stands in the form of a protocol to begin with; nothing for one that is not known."""
    return _EXAMPLES.get(protocol, {})


def models_path(protocol: str) -> str:
    """Where a server of the protocol lists the models that it serves. Raises Invalid where there is no such place."""
    if protocol != CHAT:
        raise Invalid.of_field("mode", "Servers of this protocol list their models nowhere.")
    return "/v1/models"


def models_in(listed: Any) -> list[str]:
    """The names in such a list; empty for what is none."""
    items = listed.get("data") if isinstance(listed, dict) else None
    names = [item.get("id") for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    return [name for name in names if isinstance(name, str) and name][:MODELS_MAX]


def metadata_path(model: str) -> str:
    """Where a server of the Open Inference Protocol describes a model. Raises Invalid for a name that is none."""
    return f"/v2/models/{_model(model)}"


def tensors_of(metadata: Any) -> list[Tensor]:
    """The inputs that a server's own description names; empty for a description that is none.

    A dimension of any length (-1) is put down as 1.
    """
    inputs = metadata.get("inputs") if isinstance(metadata, dict) else None
    tensors = []
    for item in inputs if isinstance(inputs, list) else []:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            continue
        shape = item.get("shape")
        named = shape if isinstance(shape, list) else []
        sizes = [size if isinstance(size, int) and size > 0 else 1 for size in named]
        tensors.append(
            Tensor(
                name=item["name"],
                datatype=str(item.get("datatype") or "FP32"),
                shape=", ".join(map(str, sizes)),
            )
        )
    return tensors[:INPUTS_MAX]


def tensors_in(values: Mapping[str, str]) -> list[Tensor]:
    """The inputs that were sent with the form; those without a name are left out."""
    return [
        Tensor(
            name=name,
            datatype=values.get(f"input-{index}-datatype", "FP32"),
            shape=values.get(f"input-{index}-shape", ""),
            data=values.get(f"input-{index}-data", ""),
        )
        for index in range(INPUTS_MAX)
        if (name := values.get(f"input-{index}-name", "").strip())
    ]


def _open_inference(values: Mapping[str, str]) -> Request:
    tensors = tensors_in(values)
    if not tensors:
        raise Invalid.of_field("input-0-name", "Name at least one input.", code="required")
    inputs = [_tensor(tensor, index) for index, tensor in enumerate(tensors)]
    path = f"/v2/models/{_model(values.get('model', ''))}/infer"
    return Request(method="POST", path=path, body=json.dumps({"inputs": inputs}, indent=2))


def _tensor(tensor: Tensor, index: int) -> dict[str, Any]:
    if tensor.datatype not in DATATYPES:
        message = f"The datatype is one of {', '.join(DATATYPES)}."
        raise Invalid.of_field(f"input-{index}-datatype", message, code="invalid_choice")
    data = _data(tensor, f"input-{index}-data")
    shape = _shape(tensor.shape, len(data), f"input-{index}-shape")
    return {"name": tensor.name, "datatype": tensor.datatype, "shape": shape, "data": data}


def _shape(text: str, count: int, field: str) -> list[int]:
    """Sizes with commas between; one of them may be -1 and follows from the number of values."""
    if not text.strip():
        return [count]
    try:
        sizes = [int(size) for size in text.replace("x", ",").split(",") if size.strip()]
    except ValueError:
        raise Invalid.of_field(field, "Write the shape as whole numbers, such as 1, 64.") from None
    known = 1
    for size in sizes:
        if size < -1 or size == 0:
            raise Invalid.of_field(field, "A size is a number above 0, or -1 for what follows from the data.")
        known *= 1 if size == -1 else size
    if sizes.count(-1) == 1 and count % known == 0:
        return [count // known if size == -1 else size for size in sizes]
    if sizes.count(-1) or known != count:
        message = f"The shape {', '.join(map(str, sizes))} does not hold {count} values."
        raise Invalid.of_field(field, message, code="shape_mismatch")
    return sizes


def _data(tensor: Tensor, field: str) -> list[Any]:
    text = tensor.data.strip()
    if not text:
        raise Invalid.of_field(field, f"Give the values of {tensor.name}.", code="required")
    if text.startswith("["):
        try:
            return _flat(json.loads(text))
        except (ValueError, RecursionError):
            raise Invalid.of_field(field, "This begins as a JSON list and is none.") from None
    if tensor.datatype == "BYTES":
        return text.split("\n")
    words = [word for word in _SEPARATORS.split(text) if word]
    try:
        return [_value(word, tensor.datatype) for word in words]
    except (ValueError, KeyError):
        message = f"Write {tensor.datatype} values with commas or spaces between, or as a JSON list."
        raise Invalid.of_field(field, message) from None


def _value(word: str, datatype: str) -> Any:
    if datatype == "BOOL":
        return _BOOL[word.lower()]
    if datatype in WHOLE:
        return int(word)
    number = float(word)
    if not math.isfinite(number):
        raise ValueError
    return number


def _flat(value: Any) -> list[Any]:
    """The values of lists in lists, in their order; each is moved once, however deep it stands."""
    found, waiting = [], [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting.extend(reversed(each))
        else:
            found.append(each)
    return found


def _chat(values: Mapping[str, str]) -> Request:
    message = values.get("message", "").strip()
    if not message:
        raise Invalid.of_field("message", "Say something to the model.", code="required")
    body: dict[str, Any] = {"model": _named(values)}
    system = values.get("system", "").strip()
    instructions: Sequence[dict[str, str]] = [{"role": "system", "content": system}] if system else []
    body["messages"] = [*instructions, {"role": "user", "content": message}]
    body["max_tokens"] = _whole(values.get("max_tokens", "") or "256", "max_tokens", most=100_000)
    body["temperature"] = _real(values.get("temperature", "") or "0.7", "temperature", most=2.0)
    return Request(method="POST", path="/v1/chat/completions", body=json.dumps(body, indent=2))


def _predictions(values: Mapping[str, str]) -> Request:
    data = values.get("data", "").strip()
    if not data:
        raise Invalid.of_field("data", "Give what the handler is to predict from.", code="required")
    return Request(method="POST", path=f"/predictions/{_model(values.get('model', ''))}", body=data)


def _named(values: Mapping[str, str]) -> str:
    name = values.get("model", "").strip()
    if not name:
        raise Invalid.of_field("model", "Name the model.", code="required")
    return name


def _model(name: str) -> str:
    return quote(_named({"model": name}), safe="")


def _whole(text: str, field: str, *, most: int) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18 or not 1 <= int(digits) <= most:
        raise Invalid.of_field(field, f"Give a whole number from 1 to {most}.")
    return int(digits)


def _real(text: str, field: str, *, most: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= most:
        raise Invalid.of_field(field, f"Give a number from 0 to {most:g}.")
    return number
