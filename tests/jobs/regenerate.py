"""Writes the golden files of the training run manifests anew: python -m tests.jobs.regenerate"""

from __future__ import annotations

from pathlib import Path

from jobs.manifests import build_training_run
from jobs.specs import TrainingRunSpec
from tests.kind_samples import SAMPLES
from tests.manifest_samples import RUN_BODIES, RUN_PLACEMENTS, write_golden
from workloads.podspec.pod_template import ManifestSet

FOLDER = Path(__file__).parent / "golden"


def built() -> dict[str, ManifestSet]:
    of_jobs = {
        name: build_training_run(TrainingRunSpec.from_json(body), RUN_PLACEMENTS[name])
        for name, body in RUN_BODIES.items()
    }
    return {**of_jobs, **{name: sample.built() for name, sample in SAMPLES.items()}}


if __name__ == "__main__":
    write_golden(FOLDER, built())
