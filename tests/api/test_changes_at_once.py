"""Two people who change one endpoint at the same time: neither undoes what the other did."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from django.db import connections, transaction

from foundation import clock
from inference.autoscaling.services import scale_endpoint
from inference.models import Endpoint
from inference.services import update_endpoint
from inference.specs import EndpointSpec
from teams.actors import Actor
from tests.api.bench import ENDPOINTS, problem, until_somebody_waits_for_a_row
from tests.waiting import result_of
from workloads.models import Workload

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def patched_meanwhile(bench, endpoint, body, **headers) -> Iterator[Future]:
    """A PATCH that has read the endpoint and waits for its row until the block ends."""

    def patch():
        try:
            return bench.client.patch(f"{ENDPOINTS}{endpoint['id']}/", body, headers=headers)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        Workload.objects.select_for_update(no_key=True).get(public_id=endpoint["id"])
        waiting = pool.submit(patch)
        until_somebody_waits_for_a_row()
        yield waiting


def change(bench, endpoint, **fields):
    found = Endpoint.objects.get(workload__public_id=endpoint["id"])
    spec = EndpointSpec.from_json({**found.current.spec, **fields})
    update_endpoint(endpoint=found, spec=spec, actor=Actor.of_user(bench.lead), now=clock.now())


def current(endpoint) -> EndpointSpec:
    return Endpoint.objects.get(workload__public_id=endpoint["id"]).parsed


def test_a_patch_keeps_what_somebody_else_changed_meanwhile(bench):
    endpoint = bench.endpoint(flavor="a100-40gb")
    with patched_meanwhile(bench, endpoint, {"image": "example.org/serve:2"}) as waiting:
        change(bench, endpoint, args=["--from-lea"])
    assert result_of(waiting).status_code == 200
    spec = current(endpoint)
    assert (spec.image, list(spec.args)) == ("example.org/serve:2", ["--from-lea"])


def test_a_patch_keeps_the_bounds_that_somebody_else_set_meanwhile(bench):
    scaling = {"trigger": "cpu"}
    endpoint = bench.endpoint(flavor="a100-40gb", min_replicas=1, max_replicas=2, scaling=scaling)
    with patched_meanwhile(bench, endpoint, {"image": "example.org/serve:2"}) as waiting:
        scale_endpoint(
            endpoint=Endpoint.objects.get(workload__public_id=endpoint["id"]),
            min_replicas=2,
            max_replicas=3,
            actor=Actor.of_user(bench.lead),
            now=clock.now(),
        )
    assert result_of(waiting).status_code == 200
    spec = current(endpoint)
    assert (spec.image, spec.min_replicas, spec.max_replicas) == ("example.org/serve:2", 2, 3)


def test_a_patch_of_a_version_that_was_seen_is_refused_once_it_has_moved(bench):
    endpoint = bench.endpoint(flavor="a100-40gb")
    tag = bench.client.get(f"{ENDPOINTS}{endpoint['id']}/")["ETag"]
    sent = patched_meanwhile(bench, endpoint, {"image": "example.org/serve:2"}, **{"If-Match": tag})
    with sent as waiting:
        change(bench, endpoint, args=["--from-lea"])
    problem(result_of(waiting), 412)
    assert current(endpoint).image == "example.org/serve:1"
