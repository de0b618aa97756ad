"""The form of an endpoint, new or changed."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from django import forms
from django.http import QueryDict
from typing_extensions import override

from console.pages.command_line import write_arguments
from console.pages.forms import (
    CAPACITIES,
    SPOT_FIRST_CHOICE,
    ArgumentsField,
    ContainerForm,
    arguments_of,
    counted_or_one,
    initial_of,
    lines,
    split_lines,
    text,
    unix,
    whole,
)
from console.pages.further import FurtherForm, carried
from inference.runtimes import CUSTOM, PRESETS, TORCHSERVE, TRITON, VLLM, ServerPreset
from inference.serializers import EndpointSerializer
from inference.specs import SURGE, WHEN_REFUSE, WHEN_REPLACE, WHEN_WAIT, EndpointSpec
from inference.triggers import IN_FLIGHT, TRIGGERS
from workloads.podspec.specs import typed

MODEL_FIELDS = ("claim", "uri", "path", "secret", "size_limit")
OPTIONS = (
    "models",
    "batch_size",
    "max_batch_delay_ms",
    "model_version",
    "max_model_len",
    "gpu_memory_utilization",
    "tensor_parallel_size",
    "served_model_name",
)
NUMBERS = frozenset(OPTIONS) - {"models", "model_version", "served_model_name"}
RUNTIME_WORDS = {
    CUSTOM: "custom: an image that says itself how it serves",
    TRITON: "triton: NVIDIA Triton",
    TORCHSERVE: "torchserve: TorchServe",
    VLLM: "vllm: vLLM",
}
# What fits most endpoints comes first.
TRIGGER_CHOICES = [
    (row.name, f"{row.name}: {row.label}")
    for row in sorted(TRIGGERS.values(), key=lambda row: row.name != IN_FLIGHT)
]
_DECIMAL = re.compile(r"[0-9]{1,6}\.[0-9]{1,9}", re.ASCII)
_STRATEGIES = [
    ("surge", "surge: the new pod comes before the old one goes"),
    ("replace", "replace: stop, then start"),
]


_WHEN_BLOCKED = [
    (WHEN_REFUSE, "ask: nothing is changed"),
    (WHEN_WAIT, "wait: it begins when there is room"),
    (WHEN_REPLACE, "replace in place"),
]


class EndpointForm(FurtherForm):
    serializer_class = EndpointSerializer
    PATHS = {
        **ContainerForm.PATHS,
        "args": "args",
        "min_replicas": "replicas",
        "max_replicas": "max_replicas",
        "scaling": "trigger",
        "scaling.threshold": "threshold",
        "scaling.query": "query",
        "scaling.cooldown_seconds": "cooldown",
        "scaling.fallback_replicas": "fallback",
        "scale_to_zero": "to_zero",
        "ports": "port",
        "probes": "readiness_path",
        "probes.load_budget_seconds": "load_budget",
        "rollout": "strategy",
        "rollout.when_blocked": "when_blocked",
        "rollout.max_downtime_seconds": "max_downtime",
        "request_timeout_seconds": "request_timeout",
        "rate_limit": "rate",
        "rate_limit.burst": "burst",
        "model": "model_claim",
        "model.uri": "model_uri",
        "model.secret": "model_secret",
        "model.size_limit": "model_size_limit",
        "model.path": "model_path",
        "runtime": "runtime",
        **{f"runtime_options.{name}": f"opt_{name}" for name in OPTIONS},
    }

    args = lines(
        "Arguments",
        "Written like the command. Without one they come after what the runtime gives its server anyway.",
        rows=2,
        field=ArgumentsField,
    )
    runtime = forms.ChoiceField(
        label="Runtime",
        choices=list(RUNTIME_WORDS.items()),
        required=False,
        help_text="What the image serves with. It fills in what is left empty.",
    )
    opt_models = lines("Models", "One per line. Empty: all of the folder.", rows=2)
    opt_batch_size = text("Batch size", "Requests that are computed together, at most.", inputmode="numeric")
    opt_max_batch_delay_ms = text(
        "Batch delay", "Milliseconds that a batch waits to fill.", inputmode="numeric"
    )
    opt_model_version = text("Model version", "That of the archives, for batching.", placeholder="1.0")
    opt_max_model_len = text("Context length", "Tokens of prompt and answer together.", inputmode="numeric")
    opt_gpu_memory_utilization = text(
        "GPU memory", "Part of the card that it takes, also of a shared one.", placeholder="0.9"
    )
    opt_tensor_parallel_size = text(
        "Tensor parallel", "GPUs that one model is spread over. Empty: all of the pod.", inputmode="numeric"
    )
    opt_served_model_name = text("Served name", "What callers name as the model.")
    replicas = text("Replicas", "The fewest pods that serve.", inputmode="numeric")
    max_replicas = text(
        "At most", "The most pods when it scales. Empty: as many as Replicas.", inputmode="numeric"
    )
    trigger = forms.ChoiceField(
        label="Scales by",
        choices=[("", "nothing: the number is fixed"), *TRIGGER_CHOICES],
        required=False,
        help_text="How many replicas run between the two numbers.",
    )
    threshold = text(
        "Target", "Of one replica, in its unit. Empty: the usual one.", inputmode="decimal", placeholder=" "
    )
    query = text("Query", "PromQL with one number as its answer.", placeholder="sum(up)")
    cooldown = text(
        "Cool-down", "Seconds without load before it shrinks.", inputmode="numeric", placeholder="300"
    )
    fallback = text(
        "Fallback", "Replicas while the metric cannot be read.", inputmode="numeric", placeholder=" "
    )
    to_zero = forms.BooleanField(
        label="Scale to zero",
        required=False,
        help_text="Nobody calls, nothing runs; a request through the gateway wakes it.",
    )
    port = text("HTTP port", "Where the container listens.", inputmode="numeric")
    readiness_path = text(
        "Readiness path", "Asked until it answers 200. Empty: the port alone.", placeholder="/healthz"
    )
    load_budget = text("Load budget", "Seconds that the model may take to load.", inputmode="numeric")
    request_timeout = text("Request timeout", "Seconds for one answer.", inputmode="numeric")
    rate = text("Rate limit", "Requests a second through the gateway. Empty: none.", inputmode="decimal")
    burst = text("Burst", "Requests at once, where there is a rate limit.", inputmode="numeric")
    model_claim = text("Model claim", "The volume that holds the model, mounted read-only.")
    model_uri = text(
        "Model address",
        "Instead of a claim: fetched from there before the server starts.",
        placeholder="s3://models/resnet50",
    )
    model_secret = text("Its secret", "With the keys that the store asks for.")
    model_size_limit = text("Room for it", "Of the node's disk.", placeholder="50Gi")
    model_path = text("Model path", "Where the server finds it, also in the image.", placeholder="/models")
    strategy = forms.ChoiceField(label="Rollout", choices=_STRATEGIES, required=False)
    when_blocked = forms.ChoiceField(
        label="Without room for a new pod", choices=_WHEN_BLOCKED, required=False
    )
    max_downtime = text(
        "Longest gap",
        "Seconds without an answer while its only pod is replaced.",
        inputmode="numeric",
        placeholder=" ",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["capacity"].choices = [*CAPACITIES, SPOT_FIRST_CHOICE]  # type: ignore[attr-defined]
        shown = {
            "name": "digits",
            "image": "registry.example.org/server:1.4",
            "command": "python serve.py",
            "port": str(self.preset.http),
            "readiness_path": self.preset.readiness_path or "/healthz",
        }
        for name, words in shown.items():
            self.fields[name].widget.attrs["placeholder"] = words
        if self.preset.readiness_path:
            self.fields["readiness_path"].help_text = "Asked until it answers 200. Empty: the runtime's."
        if self.preset.name == VLLM:
            self.fields["opt_models"].help_text = "Its folder in the model path, or its name at Hugging Face."
        self.point_to_more()

    @property
    @override
    def pods(self) -> int:
        """It claims as many replicas as it may come to have."""
        return counted_or_one(self["max_replicas"].value() or self["replicas"].value())

    @property
    def preset(self) -> ServerPreset:
        """The preset of the runtime that is chosen."""
        chosen = (self.data if self.is_bound else self.initial).get("runtime")
        return PRESETS.get(str(chosen or CUSTOM), PRESETS[CUSTOM])

    @property
    def options(self) -> list[forms.BoundField]:
        """The inputs for the options of this runtime alone."""
        return [self[f"opt_{name}"] for name in OPTIONS if name in self.preset.options]

    @property
    def fills_in(self) -> str:
        """What a request without any of it gets."""
        return preset_in_words(self.preset)

    @override
    def to_body(self, values: Mapping[str, Any]) -> dict[str, Any]:
        probes = {
            "readiness": {"path": path} if (path := values.get("readiness_path")) else None,
            "load_budget_seconds": whole(values.get("load_budget", "")),
        }
        model = {name: values.get(f"model_{name}") for name in MODEL_FIELDS}
        typed = {
            **super().to_body(values),
            "args": arguments_of(values.get("args", "")),
            "min_replicas": whole(values.get("replicas", "")),
            "max_replicas": whole(values.get("max_replicas", "")),
            "scaling": self._scaling(values),
            "scale_to_zero": True if values.get("to_zero") else None,
            "ports": _filled({"http": whole(values.get("port", ""))}),
            "probes": _filled(probes),
            "runtime": values.get("runtime", ""),
            "runtime_options": self._options(values),
            "model": _filled(model),
            "rollout": _filled(
                {
                    "strategy": values.get("strategy"),
                    "when_blocked": values.get("when_blocked"),
                    "max_downtime_seconds": whole(values.get("max_downtime", "")),
                }
            ),
            "request_timeout_seconds": whole(values.get("request_timeout", "")),
            "rate_limit": _filled(
                {
                    "requests_per_second": _number(values.get("rate", "")),
                    "burst": whole(values.get("burst", "")),
                }
            ),
        }
        return self.completed(typed, values)

    def _scaling(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return _filled(
            {
                "trigger": values.get("trigger"),
                "threshold": _number(values.get("threshold", "")),
                "query": values.get("query"),
                "cooldown_seconds": whole(values.get("cooldown", "")),
                "fallback_replicas": whole(values.get("fallback", "")),
            }
        )

    def _options(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What the chosen runtime has no place for is not sent: its input is of another one, and no longer shown."""
        typed = {name: values.get(f"opt_{name}", "") for name in OPTIONS if name in self.preset.options}
        read = {
            name: [line.strip() for line in split_lines(value) if line.strip()]
            if name == "models"
            else _number(value)
            if name in NUMBERS
            else value
            for name, value in typed.items()
        }
        return {name: value for name, value in read.items() if value not in ("", [])}


def preset_in_words(preset: ServerPreset) -> str:
    """What it fills in, in a sentence or two; empty for a preset that knows nothing about its server."""
    if preset.name == CUSTOM:
        return ""
    ports = {"HTTP": preset.http, "gRPC": preset.grpc, "metrics": preset.metrics}
    listed = ", ".join(f"{port} {name}" for name, port in ports.items() if port)
    metrics = "" if preset.metrics else f" Metrics on {preset.http} too."
    return (
        f"Ports {listed}.{metrics} Ready when {preset.readiness_path} answers, asked again as long as the load budget lasts; "
        f"then alive while {preset.liveness_path} does. Its arguments follow from the fields here; yours come after them."
    )


def _number(value: str) -> float | int | str:
    number = whole(value)
    if isinstance(number, int) or not _DECIMAL.fullmatch(value):
        return number
    return float(value)


def _filled(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in (None, "")}


def _rate_text(rate: float | None) -> str:
    return "" if rate is None else str(int(rate) if rate == int(rate) else rate)


def values_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The form's values for the stored spec of an endpoint. What its runtime fills in anyway stays empty."""
    spec = typed(spec)
    names = ("probes", "model", "rate_limit", "rollout", "scaling")
    probes, model, rate, rollout, scaling = (spec.get(name) or {} for name in names)
    runtime = spec.get("runtime") or CUSTOM
    preset = PRESETS[runtime]
    port, path = (spec.get("ports") or {}).get("http"), (probes.get("readiness") or {}).get("path")
    least, most = spec.get("min_replicas", 1), spec.get("max_replicas")
    values = {
        **initial_of(spec),
        # Apart, because a command of its own takes the place of all that the runtime fills in.
        "command": write_arguments(spec.get("command", [])),
        "args": write_arguments(spec.get("args", [])),
        "replicas": str(least),
        "max_replicas": "" if most in (None, least) else str(most),
        "trigger": scaling.get("trigger") or "",
        "threshold": _rate_text(scaling.get("threshold")),
        "query": scaling.get("query") or "",
        "cooldown": str(scaling.get("cooldown_seconds") or ""),
        "fallback": str(scaling.get("fallback_replicas") or ""),
        "to_zero": bool(spec.get("scale_to_zero")),
        "port": "" if port in (None, preset.http) else str(port),
        "readiness_path": "" if path in (None, preset.readiness_path) else path,
        "load_budget": str(probes.get("load_budget_seconds", "")),
        "request_timeout": str(spec.get("request_timeout_seconds", "")),
        "rate": _rate_text(rate.get("requests_per_second")),
        "burst": str(rate.get("burst") or ""),
        "runtime": runtime,
        **{
            f"opt_{name}": "\n".join(value) if name == "models" else str(value)
            for name, value in (spec.get("runtime_options") or {}).items()
        },
        **{f"model_{name}": model.get(name) or "" for name in MODEL_FIELDS},
        "strategy": rollout.get("strategy", SURGE),
        "when_blocked": rollout.get("when_blocked", WHEN_REFUSE),
        "max_downtime": str(rollout.get("max_downtime_seconds") or ""),
    }
    form = EndpointForm(teams=[], initial={"runtime": runtime})
    return carried(form, values, spec, lambda body: EndpointSpec.from_json(body).to_json())


def take_over(data: QueryDict, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Puts into what was sent what differs between two of `values_of`, and keeps what the person has changed.

    Answers the labels of those inputs that both have changed, each in another way.
    """
    both: list[str] = []
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if (old or "") == (new or ""):
            continue
        typed = _as_typed(data, name)
        if typed in (_plain(old), _plain(new)):
            _fill_in(data, name, new)
        else:
            both.append(str(EndpointForm.base_fields["upload" if name == "sources" else name].label))
    return both


def filled(values: Mapping[str, Any]) -> QueryDict:
    """What a browser would send of a form with these values."""
    data = QueryDict(mutable=True)
    for name, value in values.items():
        _fill_in(data, name, value)
    return data


def differs(data: QueryDict, values: Mapping[str, Any], names: Collection[str]) -> bool:
    """Whether something else was sent than the values, in one of the inputs that are named."""
    inputs = {"sources" if name == "file_name" else name for name in names} & set(values)
    return any((_as_typed(data, name) or "") != _plain(values[name]) for name in inputs)


def _plain(value: Any) -> Any:
    return unix(value).strip() if isinstance(value, str) else value or ""


def _as_typed(data: QueryDict, name: str) -> Any:
    """What was sent, as `values_of` would say it."""
    if name == "sources":
        rows = zip(data.getlist("file_name"), data.getlist("file_content"), strict=False)
        return [(file.strip(), unix(content)) for file, content in rows if file.strip() or content.strip()]
    typed = _plain(data.get(name, ""))
    return bool(typed) or "" if name == "to_zero" else typed


def _fill_in(data: QueryDict, name: str, value: Any) -> None:
    if name == "sources":
        data.setlist("file_name", [file for file, _ in value or ()])
        data.setlist("file_content", [content for _, content in value or ()])
    elif value is True:
        data[name] = "on"
    elif value:
        data[name] = value
    else:
        data.pop(name, None)
