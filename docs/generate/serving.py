"""docs/reference/serving.md: what the portal knows of model servers, and what articles show beside the request for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cluster.names import object_name
from docs.generate.manifest_rows import Example
from docs.generate.manifests import SHORT_ID, placement, section
from docs.generate.scaler_examples import PROMETHEUS_URL
from docs.generate.serving_examples import EXAMPLES
from foundation.models import DEFAULT_STORAGE_IMAGE
from inference.autoscaling.scalers import ScalerPlatform
from inference.manifests import build_endpoint
from inference.runtimes import CUSTOM, PRESETS, ServerPreset
from inference.serving_serializers import RuntimeOptionsSerializer
from inference.specs import EndpointSpec
from tenancy.namespace_manifests import priority_class
from workloads.podspec import model_source
from workloads.podspec.pod_template import ManifestSet

NOTHING = "–"  # noqa: RUF001


def page() -> list[str]:
    """The lines of the page. ValueError where an object does not hold what its row says."""
    return [
        "# Serving: runtimes, models, manifests",
        "",
        "## Runtimes",
        "",
        "`runtime` of an [endpoint request](rest-api.md) says what the image serves with. It fills in what the request leaves",
        "out, and nothing else; ports and probes that it filled in stand in the stored `spec`. `args` come after its own",
        "arguments. With a `command` the request says all of them itself.",
        "",
        "| runtime | ports: HTTP, gRPC, metrics | ready | alive | `/metrics` on | model, if in the image |",
        "|---|---|---|---|---|---|",
        *map(_preset_line, PRESETS.values()),
        "",
        "- The startup probe asks what the readiness probe asks, every 5 s, until `probes.load_budget_seconds` are over. Readiness",
        "  and liveness begin after it, so that a slow load never ends a pod.",
        "- A port that serves `/metrics` is named in the pod's annotations `prometheus.io/scrape`, `port` and `path`, and by a",
        "  PodMonitor where the cluster has them and the setting `optional_kinds` names `podmonitor`. That gives the series",
        "  the labels `mlportal_dev_workload_id` and `mlportal_dev_revision`, as the usual configuration by annotations does.",
        "- Request and limit of CPU and memory are one unless the request says otherwise: such a pod is `Guaranteed` what it has.",
        "- Kept inside the container, and refused in `ports`: "
        + "; ".join(f"{port} of {name} ({what})" for name, port, what in _refused_ports())
        + ".",
        "",
        "### runtime_options",
        "",
        "| option | of | means |",
        "|---|---|---|",
        *_option_lines(),
        "",
        "An option of another runtime is refused, naming it and what does the same there:",
        "",
        *(f"- {line}" for line in _refused_options()),
        "",
        "## Models",
        "",
        f"`model.claim` is mounted at `model.path` (`/models`), read-only. `model.uri` ({', '.join(f'`{scheme}://`' for scheme in model_source.SCHEMES)})",
        f"is fetched there by an init container into an `emptyDir` of `model.size_limit` ({model_source.DEFAULT_SIZE_LIMIT}); its image is",
        f"the setting `storage_image` ({DEFAULT_STORAGE_IMAGE}), whose program takes where from and where to. An archive",
        "(`.tar.gz`, `.zip`) is unpacked. Both together are refused; without either the model is in the image.",
        "",
        "| address | keys of `model.secret` that become variables |",
        "|---|---|",
        *_credential_lines(),
        "",
        "What is not there is told before the server starts where the request names models: an init container looks for each of",
        "`runtime_options.models` and ends with its name. A fetch that fails is told with the last words of the program. What only the",
        "server finds out, such as a folder without the layout that it wants, is told with the server's last words.",
        "",
        "## Manifests of the field, and the request for each",
        "",
        "What articles about serving show, field by field, beside the request and the object that the portal makes of it. This page",
        "is not written if one of the objects does not hold what its table says.",
        "",
        *(line for example in EXAMPLES for line in section(example, build(example), level="###")),
    ]


def build(example: Example) -> ManifestSet:
    """The objects of the example's first revision, for team vision."""
    spec = EndpointSpec.from_json(example.body)
    name = object_name(workload_name=spec.name, short_id=SHORT_ID, attempt=0)
    return build_endpoint(
        spec,
        replace(
            placement(example, spec, name=name, kind="endpoint"),
            priority_class=priority_class("normal", serves=True),
            storage_image=DEFAULT_STORAGE_IMAGE,
            pod_monitors=True,
        ),
        replicas=spec.min_replicas,
        revision=1,
        platform=ScalerPlatform(prometheus_url=PROMETHEUS_URL),
    )


def _preset_line(preset: ServerPreset) -> str:
    ports = ", ".join(str(port or NOTHING) for port in (preset.http, preset.grpc, preset.metrics))
    known = preset.name != CUSTOM
    ready, alive = (
        f"`{path}`" if path else NOTHING for path in (preset.readiness_path, preset.liveness_path)
    )
    if not known:
        ready, alive = "the port takes connections", "it runs"
    where = f"the port `{preset.metrics_port}`" if known else "`ports.metrics`, if given"
    folder = f"`{preset.model_folder}`" if preset.model_folder else NOTHING
    return f"| `{preset.name}` | {ports} | {ready} | {alive} | {where} | {folder} |"


def _refused_ports() -> Iterator[tuple[str, int, str]]:
    for preset in PRESETS.values():
        for port, what in preset.refused_ports.items():
            yield preset.name, port, what


def _option_lines() -> Iterator[str]:
    for name, field in RuntimeOptionsSerializer().fields.items():
        owners = ", ".join(f"`{preset.name}`" for preset in PRESETS.values() if name in preset.options)
        yield f"| `{name}` | {owners} | {field.help_text} |"


def _refused_options() -> Iterator[str]:
    """Each sentence once, with the options that it is about."""
    for preset in PRESETS.values():
        why: dict[str, list[str]] = {}
        for name, sentence in preset.refused_options.items():
            why.setdefault(sentence, []).append(f"`{name}`")
        for sentence, names in why.items():
            yield f"`{preset.name}`, {', '.join(names)}: {sentence}"


def _credential_lines() -> Iterator[str]:
    for scheme in model_source.SCHEMES:
        keys = model_source.CREDENTIALS.get(scheme, {})
        listed = ", ".join(f"`{name}`{'' if needed else ' (optional)'}" for name, needed in keys.items())
        words = {
            model_source.HTTPS: "of Azure's blob storage: ",
            model_source.GS: "none: public, or as the service account of the namespace",
        }
        yield f"| `{scheme}://` | {words.get(scheme, '')}{listed} |"
