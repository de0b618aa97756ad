"""Which protocol the server of an endpoint speaks and what it calls its model, as far as the request says. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from inference.runtimes import TORCHSERVE, TRITON, VLLM, archives_of
from pages.endpoints.try_forms import CHAT, OPEN_INFERENCE, PREDICTIONS

Spec = Mapping[str, Any]

OF_RUNTIME: Final[Mapping[str, str]] = {TRITON: OPEN_INFERENCE, VLLM: CHAT, TORCHSERVE: PREDICTIONS}
_OF_IMAGE: Final = (
    ("tritonserver", OPEN_INFERENCE),
    ("mlserver", OPEN_INFERENCE),
    ("kserve", OPEN_INFERENCE),
    ("torchserve", PREDICTIONS),
    ("vllm", CHAT),
    ("sglang", CHAT),
    ("text-generation-inference", CHAT),
    ("llama.cpp", CHAT),
    ("ollama", CHAT),
)
"""Part of the name of an image by which the server is known though its runtime is custom."""
_OF_PATH: Final = (("/v2/", OPEN_INFERENCE), ("/v1/models", CHAT), ("/ping", PREDICTIONS))
"""How the path begins by which the server tells that it is ready."""
_NAMED_BY: Final = ("--served-model-name", "--model-name", "--model", "--model-id")
"""Arguments by which servers are told the name of their model, the one that counts first."""
_IN_ENV: Final = ("SERVED_MODEL_NAME", "MODEL_NAME", "MODEL_ID")


def protocol_of(spec: Spec) -> str:
    """The form of its requests; empty where nothing tells."""
    if known := OF_RUNTIME.get(spec.get("runtime", "")):
        return known
    started = " ".join([str(spec.get("image") or ""), *map(str, spec.get("command") or ())]).lower()
    readiness = (spec.get("probes") or {}).get("readiness") or {}
    path = str(readiness.get("path") or "")
    by_name = (form for part, form in _OF_IMAGE if part in started)
    by_path = (form for begin, form in _OF_PATH if path.startswith(begin))
    return next(by_name, "") or next(by_path, "")


def model_of(spec: Spec, *, otherwise: str) -> str:
    """What its server calls the model; `otherwise` where the request does not say."""
    options = spec.get("runtime_options") or {}
    return str(
        options.get("served_model_name")
        or _argument([*(spec.get("command") or ()), *(spec.get("args") or ())])
        or _option(spec, options)
        or _variable(spec.get("env") or ())
        or otherwise
    )


def _option(spec: Spec, options: Mapping[str, Any]) -> str:
    named = str((options.get("models") or [""])[0])
    brought = spec.get("model") or {}
    if spec.get("runtime") == TORCHSERVE:
        return next(iter(archives_of(options)), "")
    if spec.get("runtime") != VLLM:
        return named
    if brought.get("claim") or brought.get("uri"):
        # It calls a model by its folder unless it is told a name.
        return "/".join(part for part in (brought.get("path"), named) if part)
    return named or str(brought.get("path") or "")


def _argument(words: Sequence[str]) -> str:
    """The value of the first of the arguments that name a model, as `--model x` or `--model=x`."""
    given: dict[str, str] = {}
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        name, equals, value = str(word).partition("=")
        if name in _NAMED_BY:
            given.setdefault(name, value if equals else str(following))
    return next((given[name] for name in _NAMED_BY if given.get(name)), "")


def _variable(env: Sequence[Mapping[str, Any]]) -> str:
    values = {each.get("name"): each.get("value") for each in env}
    return next((str(values[name]) for name in _IN_ENV if values.get(name)), "")
