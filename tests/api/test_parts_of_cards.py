"""Slices and shares of cards: one for a pod, and shares for no training of several pods."""

from __future__ import annotations

import pytest

from tests.api.bench import RUNS, Unchanged
from tests.factories.catalogue import make_flavor, make_quota
from tests.factories.submitted import run_body
from workloads.placement import Sharing

SLICE = {"resource": "nvidia.com/mig-1g.10gb", "sharing": Sharing.MIG.value}
SHARE = {"resource": "nvidia.com/gpu.shared", "sharing": Sharing.TIME_SLICING.value}


def offered(bench, flavor):
    make_quota(bench.team, make_flavor("part", **flavor), 8)


def asked(bench, **body):
    return bench.client.post(RUNS, run_body("vision", flavor="part", **body))


@pytest.mark.parametrize(
    ("flavor", "body", "field"),
    [
        (SLICE, {"gpus_per_replica": 2}, "gpus_per_replica"),
        (SHARE, {"gpus_per_replica": 2}, "gpus_per_replica"),
        (SHARE, {"replicas": 2}, "replicas"),
    ],
)
def test_what_a_program_could_not_use_is_refused_by_name(bench, flavor, body, field):
    offered(bench, flavor)
    with Unchanged():
        answer = asked(bench, **body)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert (error["field"], error["code"]) == (field, "one_part_only")


@pytest.mark.parametrize("body", [{}, {"replicas": 2}])
def test_slices_are_isolated_so_several_pods_may_train_on_them(bench, body):
    offered(bench, SLICE)
    assert "one_part_only" not in str(asked(bench, **body).json())


def test_one_share_may_train(bench):
    offered(bench, SHARE)
    assert "one_part_only" not in str(asked(bench).json())
