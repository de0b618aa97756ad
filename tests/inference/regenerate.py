"""Writes the golden files of the endpoint manifests anew: python -m tests.inference.regenerate"""

from __future__ import annotations

from pathlib import Path

from inference.manifests import build_endpoint
from inference.specs import EndpointSpec
from tests.manifest_samples import ENDPOINT_BODIES, ENDPOINT_PLACEMENTS, write_golden
from workloads.podspec.pod_template import ManifestSet

FOLDER = Path(__file__).parent / "golden"


def built() -> dict[str, ManifestSet]:
    found = {}
    for name, body in ENDPOINT_BODIES.items():
        spec = EndpointSpec.from_json(body)
        found[name] = build_endpoint(spec, ENDPOINT_PLACEMENTS[name], replicas=spec.min_replicas)
    return found


if __name__ == "__main__":
    write_golden(FOLDER, built())
