"""Volumes that are asked for at the same moment: the ceilings hold for all of them together."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from cluster import kinds
from cluster.kinds import ref_of
from foundation import clock
from foundation.errors import Conflict
from quotas.limits import set_policy
from teams.actors import Actor
from tenancy.namespaces import ensure_namespace
from tenancy.volumes import create_volume
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)

ASKED = 6


@pytest.mark.parametrize("client", ["devcluster"], indirect=True)
@pytest.mark.parametrize(
    ("ceiling", "fit"), [({"ceiling_volumes": 2}, 2), ({"ceiling_volume_storage_gib": 7}, 3)]
)
def test_volumes_asked_for_at_once_do_not_pass_a_ceiling_together(bench, ceiling, fit):
    set_policy(team=bench.team, changes=ceiling, actor=Actor.system("tests"), now=clock.now())
    ensure_namespace(bench.client, bench.team)
    start = threading.Barrier(ASKED)

    def ask(number):
        try:
            start.wait(30)
            return create_volume(
                bench.client,
                team=bench.team,
                name=f"data-{number}",
                size="2Gi",
                access_mode="ReadWriteOnce",
                storage_class=None,
                actor=Actor.of_user(bench.member),
                now=clock.now(),
            )
        except Conflict as refusal:
            return refusal.code
        finally:
            connections.close_all()

    with ThreadPoolExecutor(ASKED) as pool:
        told = list(pool.map(ask, range(ASKED)))
    assert told.count("quota_exceeded") == ASKED - fit
    there = bench.client.list(kinds.CLAIM, namespace=bench.team.namespace_name).items
    assert len(there) == fit
    for each in there:
        bench.client.delete(ref_of(each), uid=each["metadata"]["uid"])
    until(lambda: not bench.client.list(kinds.CLAIM, namespace=bench.team.namespace_name).items)
