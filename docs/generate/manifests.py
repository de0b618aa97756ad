"""docs/reference/manifests.md: what articles show beside the request and the object that the portal makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import yaml

from cluster.labels import workload_labels
from cluster.names import object_name
from docs.generate.manifest_rows import Example, ManifestRow, Step
from docs.generate.training_examples import EXAMPLES
from jobs.manifests import build_training_run
from jobs.specs import TrainingRunSpec
from tenancy.namespace_manifests import SERVICE_ACCOUNT, priority_class
from workloads.placement import Placement, node_terms, tolerations
from workloads.podspec.pod_template import ManifestSet
from workloads.podspec.specs import ContainerSpec

WORKLOAD_ID = "0192f0c1-7d1e-7a3b-9c44-5be2a1d3f00d"
SHORT_ID = "a1d3f00d"
LONG = 60
"""Characters of a value from which on a cell says how many items it has."""


def page() -> list[str]:
    """The lines of the page. ValueError where an object does not hold what its row says."""
    return [
        "# Manifests of the field, and the request for each",
        "",
        "What articles about training on Kubernetes show, field by field: which field of a",
        "[training run request](rest-api.md) asks for the same, and what stands in the object that the portal makes of that",
        "request. Where the two differ, the reason is beside it. The objects are made by the code that makes them in",
        "earnest; this page is not written if one of them does not hold what its table says.",
        "",
        *(line for example in EXAMPLES for line in section(example, build(example))),
    ]


def build(example: Example) -> ManifestSet:
    """The objects of the example's first attempt, for team vision."""
    spec = TrainingRunSpec.from_json(example.body)
    name = object_name(workload_name=spec.name, short_id=SHORT_ID, attempt=1)
    placed = placement(example, spec, name=name, kind="training-run")
    return build_training_run(spec, replace(placed, run_token_secret=f"{name}-token"))


def placement(example: Example, spec: ContainerSpec, *, name: str, kind: str) -> Placement:
    """Where the example's first attempt goes, for team vision, with the priority of a run."""
    return Placement(
        namespace="team-vision",
        object_name=name,
        workload_id=WORKLOAD_ID,
        short_id=SHORT_ID,
        attempt=1,
        team_slug="vision",
        labels=workload_labels(workload_id=WORKLOAD_ID, attempt=1, team="vision", kind=kind),
        resource_name=example.flavor.resource,
        node_terms=node_terms(example.flavor, spec.capacity, []),
        tolerations=tolerations(example.flavor, spec.capacity),
        capacity_type=spec.capacity,
        gang_scheduler=example.gang_scheduler,
        service_account=SERVICE_ACCOUNT,
        priority_class=priority_class("normal"),
        portal_url="http://portal.ml-portal.svc:8000",
        run_token_secret=None,
    )


def value_at(manifest: Mapping[str, Any], row: ManifestRow) -> Any:
    """What stands where the row points to; None where nothing does. A text is read as lines of name=value."""
    here: Any = manifest
    for step in row.at:
        if isinstance(step, Mapping):
            here = next((item for item in here if step.items() <= item.items()), None)
        elif isinstance(step, int):
            here = here[step] if isinstance(here, list) and step < len(here) else None
        elif isinstance(here, str):
            here = dict(line.partition("=")[::2] for line in here.splitlines()).get(step)
        else:
            here = here.get(step)
        if here is None:
            return None
    return here


def section(example: Example, made: ManifestSet, *, level: str = "##") -> list[str]:
    """The lines about one example, of which these are the objects."""
    shown = next((manifest for manifest in made.all() if manifest["kind"] == example.shows), made.primary)
    others = ", ".join(
        f"{manifest['kind']} `{manifest['metadata']['name']}`"
        for manifest in made.all()
        if manifest is not shown
    )
    return [
        f"{level} {example.title}",
        "",
        f"{example.source}.",
        "",
        "| the article's manifest | request | the portal's object | differs because |",
        "|---|---|---|---|",
        *(_line(_object(made, row), row, example) for row in example.rows),
        "",
        "Request:",
        "",
        "```json",
        json.dumps(example.body, indent=2, ensure_ascii=False),
        "```",
        "",
        f"<details><summary>The object{f', beside {others}' if others else ''}</summary>".replace("`", ""),
        "",
        "```yaml",
        yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=110).rstrip(),
        "```",
        "",
        "</details>",
        "",
    ]


def _object(made: ManifestSet, row: ManifestRow) -> Mapping[str, Any]:
    """The object that the row is about; empty where there is none, so that nothing is found in it."""
    return (
        next((manifest for manifest in made.all() if manifest["kind"] == row.of), {})
        if row.of
        else made.primary
    )


def _line(manifest: Mapping[str, Any], row: ManifestRow, example: Example) -> str:
    value = value_at(manifest, row)
    if value != row.holds:
        raise ValueError(f"{example.title}: {row.asks}: {_path(row.at)} is {value!r}, not {row.holds!r}")
    where = f"{row.of} `{_path(row.at)}`" if row.of else f"`{_path(row.at)}`"
    return f"| {row.asks} | {row.request} | {where}: {_shown(value)} | {row.but} |"


def _path(steps: tuple[Step, ...]) -> str:
    """`containers[0].resources.limits[nvidia.com/gpu]`; the way to the pod is left out, but not whose pod it is."""
    path = next((f"{step}: " for step in steps if step in ("Master", "Worker") and "template" in steps), "")
    for step in steps[steps.index("template") + 2 if "template" in steps else 0 :]:
        if isinstance(step, Mapping):
            path += f"[{', '.join(step.values())}]"
        elif isinstance(step, int) or "." in step:
            path += f"[{step}]"
        else:
            path += f".{step}" if path and not path.endswith(" ") else step
    return path.replace("requiredDuringSchedulingIgnoredDuringExecution", "required")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return f"{len(value)} items, as sent" if isinstance(value, list) and len(text) > LONG else f"`{text}`"
