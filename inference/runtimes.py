"""What the portal knows about model servers: where they listen, when they are ready, and how they learn what to serve.

A preset fills in what a request leaves out, and nothing else: with a command of its own a request says all of it.
The facts are those of Triton 24.12, TorchServe 0.12 and vLLM 0.21; each server's own documents name them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

CUSTOM = "custom"
TRITON = "triton"
TORCHSERVE = "torchserve"
VLLM = "vllm"
HTTP = "http"
METRICS = "metrics"
METRICS_PATH = "/metrics"
CONFIG_FOLDER = "/etc/torchserve"
CONFIG_FILE = "config.properties"
ARCHIVE_SUFFIX = ".mar"
WORKER_TIMEOUT_SECONDS = 120
"""TorchServe's own default: a worker that takes longer is taken for dead and started anew."""
DEFAULT_MODEL_VERSION = "1.0"
"""What torch-model-archiver writes by default."""

Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPreset:
    name: str
    http: int = 8080
    grpc: int | None = None
    metrics: int | None = None
    metrics_port: str = METRICS
    """Name of the port that answers /metrics."""
    readiness_path: str | None = None
    liveness_path: str | None = None
    model_folder: str | None = None
    """Where an image brings its models, if nothing else does."""
    options: frozenset[str] = frozenset()
    refused_options: Mapping[str, str] = field(default_factory=dict)
    """Option -> why this server has none, and what does that instead."""
    refused_ports: Mapping[int, str] = field(default_factory=dict)
    """Number -> what listens there that no one may reach."""
    absent_ports: Mapping[str, str] = field(default_factory=dict)
    """Name -> why this server has no such port of its own."""


_CONFIG_PBTXT = (
    "Triton batches as each model's own config.pbtxt says (max_batch_size, dynamic_batching with "
    "max_queue_delay_microseconds); no argument of the server overrides it. Set it there."
)
PRESETS: Mapping[str, ServerPreset] = {
    preset.name: preset
    for preset in (
        ServerPreset(name=CUSTOM),
        ServerPreset(
            name=TRITON,
            http=8000,
            grpc=8001,
            metrics=8002,
            readiness_path="/v2/health/ready",
            liveness_path="/v2/health/live",
            model_folder="/models",
            options=frozenset({"models"}),
            refused_options={"batch_size": _CONFIG_PBTXT, "max_batch_delay_ms": _CONFIG_PBTXT},
        ),
        ServerPreset(
            name=TORCHSERVE,
            http=8080,
            grpc=7070,
            metrics=8082,
            readiness_path="/ping",
            liveness_path="/ping",
            model_folder="/home/model-server/model-store",
            options=frozenset({"models", "batch_size", "max_batch_delay_ms", "model_version"}),
            refused_ports={
                8081: "TorchServe's management API, which loads and removes models",
                7071: "TorchServe's management API over gRPC",
            },
        ),
        ServerPreset(
            name=VLLM,
            http=8000,
            metrics_port=HTTP,
            readiness_path="/health",
            liveness_path="/health",
            options=frozenset(
                {
                    "models",
                    "batch_size",
                    "max_model_len",
                    "gpu_memory_utilization",
                    "tensor_parallel_size",
                    "served_model_name",
                }
            ),
            refused_options={
                "max_batch_delay_ms": "vLLM adds each request to the batch that runs; it waits for none. batch_size says "
                "how many run together."
            },
            absent_ports={
                "grpc": "vLLM serves HTTP alone",
                METRICS: "vLLM answers /metrics on its HTTP port, where it is asked for them",
            },
        ),
    )
}
RUNTIMES = tuple(PRESETS)
LIVENESS_PERIOD_SECONDS = 15
LIVENESS_FAILURES = 4
"""A minute without an answer, once it has loaded: a long batch is no reason to start anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRequest:
    """The part of a request that decides how its server is started."""

    command: Sequence[str]
    args: Sequence[str]
    ports: Mapping[str, int]
    options: Options
    model_path: str | None
    """None where the request says nothing of a model."""
    brought: bool
    """Whether a claim or an object store brings the model."""
    gpus: int
    request_timeout_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """How the server is started. `looked_for` are the paths without which it had better not be."""

    command: tuple[str, ...]
    args: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    """Files in CONFIG_FOLDER."""
    looked_for: tuple[str, ...] = ()


def start(runtime: str, asked: ServerRequest) -> Started:
    """Command and arguments as the request gives them, or the preset's with the request's arguments behind them."""
    preset = _STARTS.get(runtime)
    if preset is None:
        return Started(command=tuple(asked.command), args=tuple(asked.args))
    started = preset(asked)
    if asked.command:
        return replace(started, command=tuple(asked.command), args=tuple(asked.args))
    return replace(started, args=(*started.args, *asked.args))


def _triton(asked: ServerRequest) -> Started:
    folder = asked.model_path or PRESETS[TRITON].model_folder
    models = asked.options.get("models") or ()
    ports = {name: asked.ports[name] for name in ("http", "grpc", "metrics")}
    return Started(
        command=("tritonserver",),
        args=(
            f"--model-repository={folder}",
            *(f"--{name}-port={port}" for name, port in ports.items()),
            # Else it would end under a request that may take longer.
            f"--exit-timeout-secs={asked.request_timeout_seconds}",
            *(("--model-control-mode=explicit",) if models else ()),
            *(f"--load-model={name}" for name in models),
        ),
        looked_for=tuple(f"{folder}/{name}" for name in models),
    )


def _vllm(asked: ServerRequest) -> Started:
    options = asked.options
    named = next(iter(options.get("models") or ()), None)
    folder = asked.model_path if asked.brought else None
    model = "/".join(part for part in (folder, named) if part) or asked.model_path or ""
    flags = {
        "served-model-name": options.get("served_model_name"),
        "max-num-seqs": options.get("batch_size"),
        "max-model-len": options.get("max_model_len"),
        "gpu-memory-utilization": options.get("gpu_memory_utilization"),
        "tensor-parallel-size": options.get("tensor_parallel_size")
        or (asked.gpus if asked.gpus > 1 else None),
    }
    # It keeps caches at home, and asks for the name of a user that the image does not know.
    env = {"HOME": "/tmp", "USER": "vllm", "VLLM_NO_USAGE_STATS": "1"}  # noqa: S108 - of a container
    return Started(
        command=("vllm", "serve"),
        args=(
            model,
            f"--port={asked.ports['http']}",
            *(f"--{name}={value}" for name, value in flags.items() if value is not None),
        ),
        # A folder that is not there would be looked for at Hugging Face, for minutes.
        env={**env, "HF_HUB_OFFLINE": "1"} if folder else env,
        looked_for=(model,) if folder and named else (),
    )


def _torchserve(asked: ServerRequest) -> Started:
    folder = asked.model_path or str(PRESETS[TORCHSERVE].model_folder)
    path = f"{CONFIG_FOLDER}/{CONFIG_FILE}"
    archives = archives_of(asked.options)
    return Started(
        command=("torchserve",),
        # Without a snapshot of its own, which would win over this file at the next start.
        args=("--start", "--foreground", "--ncs"),
        env={
            "TS_CONFIG_FILE": path,
            "LOG_LOCATION": "/tmp/logs",  # noqa: S108 - of a container
            "METRICS_LOCATION": "/tmp/logs",  # noqa: S108 - of a container
        },
        config={CONFIG_FILE: _properties(asked, folder, archives)},
        looked_for=tuple(f"{folder}/{archive}" for archive in archives.values()),
    )


def archives_of(options: Options) -> dict[str, str]:
    """Archive by the name under which it is served: `bert=classifier.mar`, or `classifier.mar` alone."""
    archives = {}
    for item in options.get("models") or ():
        name, equals, archive = str(item).partition("=")
        archives[name if equals else name.removesuffix(ARCHIVE_SUFFIX)] = archive if equals else name
    return archives


def _properties(asked: ServerRequest, folder: str, archives: Mapping[str, str]) -> str:
    """TorchServe's configuration. It takes batching by model and version alone: there is no property for all models."""
    lines = {
        "inference_address": f"http://0.0.0.0:{asked.ports['http']}",
        # Only the container itself can reach it: it has no authentication that the portal could use.
        "management_address": "http://127.0.0.1:8081",
        "metrics_address": f"http://0.0.0.0:{asked.ports['metrics']}",
        "grpc_inference_address": "0.0.0.0",  # noqa: S104 - of a pod, behind its network policy
        "grpc_inference_port": str(asked.ports["grpc"]),
        "grpc_management_address": "127.0.0.1",
        "grpc_management_port": "7071",
        "metrics_mode": "prometheus",
        # The gateway asks for the caller's token, and it alone can reach the pod.
        "disable_token_authorization": "true",
        "default_response_timeout": str(max(WORKER_TIMEOUT_SECONDS, asked.request_timeout_seconds)),
        "model_store": folder,
        "load_models": ",".join(f"{name}={archive}" for name, archive in archives.items()) or "all",
    }
    batching = {
        "batchSize": asked.options.get("batch_size"),
        "maxBatchDelay": asked.options.get("max_batch_delay_ms"),
    }
    values = {name: value for name, value in batching.items() if value is not None}
    if values:
        version = asked.options.get("model_version") or DEFAULT_MODEL_VERSION
        models = {
            name: {version: {"defaultVersion": True, "marName": archive, **values}}
            for name, archive in archives.items()
        }
        lines["models"] = json.dumps(models, separators=(",", ":"))
    return "".join(f"{name}={_escaped(value)}\n" for name, value in lines.items())


def _escaped(value: str) -> str:
    """As java.util.Properties reads it: backslashes double, all beyond ASCII as its number."""
    text = value.replace("\\", "\\\\")
    units = (text.encode("utf-16-be")[at : at + 2] for at in range(0, len(text.encode("utf-16-be")), 2))
    numbers = (int.from_bytes(unit, "big") for unit in units)
    return "".join(chr(number) if number < 0x7F else f"\\u{number:04x}" for number in numbers)


_STARTS = {TRITON: _triton, TORCHSERVE: _torchserve, VLLM: _vllm}
