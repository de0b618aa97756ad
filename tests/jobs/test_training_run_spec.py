from __future__ import annotations

import pytest

from jobs.specs import CheckpointSpec, TrainingRunSpec
from workloads.podspec.specs import Volume

MINIMAL = {"name": "a", "image": "b"}


@pytest.mark.parametrize(
    ("field", "value"),
    [("topology", "any"), ("gang", True), ("kind", "job")],
)
def test_the_default_of_a_later_field_says_nothing(field, value):
    assert TrainingRunSpec.from_json({**MINIMAL, field: value}) == TrainingRunSpec.from_json(MINIMAL)


def test_a_flavor_without_a_number_asks_for_one_gpu():
    assert TrainingRunSpec.from_json({**MINIMAL, "flavor": "t4"}).gpus_per_replica == 1
    assert TrainingRunSpec.from_json({**MINIMAL, "flavor": "t4", "gpus_per_replica": 0}).gpus_per_replica == 0
    assert TrainingRunSpec.from_json(MINIMAL).gpus_per_replica == 0


def test_a_request_alone_is_also_the_limit():
    spec = TrainingRunSpec.from_json({**MINIMAL, "cpu": {"request": "2"}, "memory": {"limit": "4Gi"}})
    assert (spec.cpu.request, spec.cpu.limit) == ("2", "2")
    assert spec.to_json()["memory"] == "4Gi"


def test_code_is_started_where_it_lies_unless_another_folder_is_named():
    source = {"files": {"a.py": ""}, "path": "/code"}
    assert TrainingRunSpec.from_json({**MINIMAL, "source": source}).effective_working_dir == "/code"
    named = TrainingRunSpec.from_json({**MINIMAL, "source": source, "working_dir": "/srv"})
    assert named.effective_working_dir == "/srv"
    assert TrainingRunSpec.from_json({**MINIMAL, "source": {"files": {}}}).source is None


def test_a_checkpoint_lies_in_the_nearest_volume_around_it():
    spec = TrainingRunSpec.from_json(
        {
            **MINIMAL,
            "volumes": [{"claim": "a", "path": "/data"}, {"claim": "b", "path": "/data/b"}],
            "checkpoint": {"path": "/data/b/c"},
        }
    )
    assert spec.checkpoint.holder(spec.volumes).claim == "b"
    assert CheckpointSpec("/data/b/c", claim="a").holder(spec.volumes) is None
    assert CheckpointSpec("/database").holder(spec.volumes) is None


@pytest.mark.parametrize(
    ("checkpoint", "mounted"),
    [
        (None, None),
        ({"path": "/data/c"}, None),
        ({"path": "/data/c", "claim": "a"}, None),
        ({"path": "/data/c", "claim": "b"}, Volume("b", "/data/c")),
        ({"path": "/database", "claim": "a"}, Volume("a", "/database")),
    ],
)
def test_a_checkpoint_has_a_mount_of_its_own_only_where_no_volume_holds_it(checkpoint, mounted):
    body = {**MINIMAL, "volumes": [{"claim": "a", "path": "/data"}], "checkpoint": checkpoint}
    spec = TrainingRunSpec.from_json(body)
    assert spec.checkpoint_mount == mounted
    assert [*spec.mounted_volumes] == [Volume("a", "/data"), *([mounted] if mounted else [])]
    uses = [(use.field, use.claim) for use in spec.claim_uses()]
    assert uses == [("volumes.0", "a"), *([("checkpoint", mounted.claim)] if mounted else [])]
