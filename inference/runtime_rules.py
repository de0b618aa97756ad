"""What is wrong with a request for the server that it names: fields that are right by themselves and not together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from inference.runtimes import (
    ARCHIVE_SUFFIX,
    CUSTOM,
    RUNTIMES,
    TORCHSERVE,
    TRITON,
    VLLM,
    ServerPreset,
    archives_of,
)
from workloads.podspec import model_source
from workloads.podspec.grammar import Fault

Json = Mapping[str, Any]
Problem = tuple[str, Fault]

MODELS_MAX = 64
TOLD_BY_ARGUMENTS = frozenset({TRITON, VLLM})
CONFIG_VARIABLE = "TS_CONFIG_FILE"


def problems(body: Json, preset: ServerPreset) -> list[Problem]:
    """(dotted path, fault) of whatever the server has no use for, or cannot do without."""
    options = {
        key: value for key, value in (body.get("runtime_options") or {}).items() if value not in (None, [])
    }
    return [
        *_ports(body.get("ports") or {}, preset),
        *_options(options, preset),
        *_unheard(body, options, preset),
        *_models(body, options, preset),
        *_source(body.get("model") or {}, preset),
        *_spread(body, options),
    ]


def _ports(ports: Json, preset: ServerPreset) -> Iterator[Problem]:
    for name, port in ports.items():
        if port is None:
            continue
        if why := preset.absent_ports.get(name):
            yield f"ports.{name}", Fault("not_for_runtime", f"{why}: leave {name} out.")
        elif what := preset.refused_ports.get(port):
            message = f"Port {port} is {what}: it is kept inside the container. Leave it out."
            yield f"ports.{name}", Fault("management_port", message)


def _options(options: Json, preset: ServerPreset) -> Iterator[Problem]:
    for name in options:
        path = f"runtime_options.{name}"
        if why := preset.refused_options.get(name):
            yield path, Fault("not_for_runtime", why)
        elif preset.name == CUSTOM:
            others = ", ".join(runtime for runtime in RUNTIMES if runtime != CUSTOM)
            message = f"The portal does not know this server: say it in command, args or env, or name a runtime ({others})."
            yield path, Fault("not_for_runtime", message)
        elif name not in preset.options:
            has = ", ".join(sorted(preset.options))
            yield path, Fault("not_for_runtime", f"{preset.name} has no {name}; it has: {has}.")


def _unheard(body: Json, options: Json, preset: ServerPreset) -> Iterator[Problem]:
    """Options that would say nothing, because the request starts the server in its own way."""
    if body.get("command") and preset.name in TOLD_BY_ARGUMENTS:
        for name in options:
            message = "It becomes an argument, and this request has a command of its own: say it there, or leave command out."
            yield f"runtime_options.{name}", Fault("no_effect", message)
    own_file = any(item["name"] == CONFIG_VARIABLE for item in body.get("env") or ())
    if own_file and preset.name == TORCHSERVE:
        for name in options:
            message = f"It is written into TorchServe's configuration, and {CONFIG_VARIABLE} names another one: say it there."
            yield f"runtime_options.{name}", Fault("no_effect", message)


def _models(body: Json, options: Json, preset: ServerPreset) -> Iterator[Problem]:
    models = options.get("models") or []
    if preset.name == TORCHSERVE:
        yield from _archives(models, options)
        return
    for index, name in enumerate(models):
        if "=" in name or ("/" in name and preset.name != VLLM):
            yield (
                f"runtime_options.models.{index}",
                Fault("invalid_name", f"{name!r} is no folder of the model's."),
            )
    if len(set(models)) < len(models):
        yield "runtime_options.models", Fault("duplicate", "A model is named twice.")
    if preset.name == VLLM:
        if len(models) > 1:
            yield "runtime_options.models", Fault("too_many", "vLLM serves one model: name one.")
        if not models and not body.get("command") and not _says_where(body.get("model") or {}):
            message = "vLLM has to be told its model: give model.claim, model.uri, or its name in runtime_options.models."
            yield "model", Fault("required", message)


def _archives(models: list[str], options: Json) -> Iterator[Problem]:
    for index, item in enumerate(models):
        if not item.endswith(ARCHIVE_SUFFIX) or "/" in item:
            message = f"{item!r}: TorchServe loads archives: write file.mar, or name=file.mar."
            yield f"runtime_options.models.{index}", Fault("invalid_name", message)
    if len(archives_of(options)) < len(models):
        yield "runtime_options.models", Fault("duplicate", "Two models have the same name.")
    for name in ("batch_size", "max_batch_delay_ms", "model_version"):
        if name in options and not models:
            message = "TorchServe keeps it for each model by name: name them in runtime_options.models."
            yield f"runtime_options.{name}", Fault("models_required", message)
    if "model_version" in options and not options.keys() & {"batch_size", "max_batch_delay_ms"}:
        message = "It says for which version batching is set: give batch_size or max_batch_delay_ms, or leave it out."
        yield "runtime_options.model_version", Fault("no_effect", message)


def _says_where(model: Json) -> bool:
    return any(model.get(key) for key in ("claim", "uri", "path"))


def _source(model: Json, preset: ServerPreset) -> Iterator[Problem]:
    claim, uri, secret = model.get("claim"), model.get("uri"), model.get("secret")
    if claim and uri:
        yield "model.uri", Fault("exclusive", "Give a claim or an address; not both.")
    if model.get("path") and not claim and not uri and preset.name == CUSTOM:
        message = "Say what is to be there: a claim or an address. A model in the image needs neither."
        yield "model.path", Fault("no_effect", message)
    if model.get("size_limit") and not uri:
        yield (
            "model.size_limit",
            Fault("no_effect", "It limits what is fetched from model.uri, of which there is none."),
        )
    if not secret:
        return
    if not uri:
        yield "model.secret", Fault("no_effect", "It is for model.uri, of which there is none.")
    elif not model_source.needed_keys(uri):
        message = (
            f"From {model_source.scheme_of(uri)}:// it is read without a key, or as the namespace's service account. For a "
            "bucket of Google with an HMAC key write s3://, with AWS_ENDPOINT_URL in the secret."
        )
        yield "model.secret", Fault("no_effect", message)


def _spread(body: Json, options: Json) -> Iterator[Problem]:
    """On more GPUs than the pod has, vLLM would wait for them."""
    gpus = body.get("gpus_per_replica")
    gpus_of_pod = (1 if body.get("flavor") else 0) if gpus is None else gpus
    size = options.get("tensor_parallel_size")
    if size is not None and size > gpus_of_pod:
        message = f"The model is spread over {size} GPUs, and a pod has {gpus_of_pod}."
        yield "runtime_options.tensor_parallel_size", Fault("above_gpus", message)
