"""The team's volumes on a page: what is there, and making one, without a script."""

from __future__ import annotations

import pytest

from cluster import kinds
from cluster.client import connect
from teams.models import AuditEvent
from tests.controller.clusters import Relay
from workloads.models import ClaimRecord

PAGE = "/teams/vision/volumes/"


@pytest.fixture
def cluster(devcluster, settings):
    settings.CLUSTER_KUBECONFIG = devcluster
    client = connect(devcluster)
    # Others may have left some: the cluster is all tests'.
    _delete_claims(client)
    yield client
    _delete_claims(client)


@pytest.mark.django_db(transaction=True)
def test_a_member_makes_a_volume_and_finds_it_in_the_list(cluster, world, ana, viewer):
    assert f'href="{PAGE}"' in ana.get("/teams/vision/").content.decode()
    assert "no volume yet" in ana.get(PAGE).content.decode()
    back = ana.post(
        PAGE, {"name": "datasets", "size": "10Gi", "access_mode": "ReadWriteMany", "storage_class": ""}
    )
    assert (back.status_code, back["Location"]) == (303, PAGE)
    listed = viewer.get(PAGE).content.decode()
    assert "datasets" in listed
    assert "10Gi" in listed
    assert "Make volume" not in listed
    (made,) = cluster.list(kinds.CLAIM, namespace="team-vision").items
    assert made["spec"]["accessModes"] == ["ReadWriteMany"]
    assert ClaimRecord.objects.get().name == "datasets"
    assert AuditEvent.objects.get(action="volume.created").actor == world.ana

    again = ana.post(PAGE, {"name": "datasets", "size": "1Gi", "access_mode": "ReadWriteOnce"})
    assert again.status_code == 422
    assert again.context["errors"] == {"name": "Team vision has a volume named datasets already."}
    assert 'value="1Gi"' in again.content.decode()


@pytest.mark.django_db
@pytest.mark.django_db(transaction=True)
def test_a_cluster_that_refuses_the_right_to_list_claims_is_told_in_its_words(
    cluster, settings, tmp_path, world, ana
):
    relay = Relay(tmp_path, cluster.source)
    settings.CLUSTER_KUBECONFIG = relay.kubeconfig
    relay.refuse(
        "GET", "/persistentvolumeclaims", 403, "Forbidden", "persistentvolumeclaims is forbidden: no"
    )
    try:
        answers = [ana.get(PAGE), ana.get("/api/v1/teams/vision/volumes/")]
    finally:
        relay.close()
    assert [each.status_code for each in answers] == [503, 503]
    assert all("persistentvolumeclaims is forbidden" in each.content.decode() for each in answers)


class TestWithoutACluster:
    @pytest.fixture(autouse=True)
    def away(self, settings):
        settings.CLUSTER_KUBECONFIG = "/nonexistent/kubeconfig"

    @pytest.mark.parametrize(
        ("typed", "field"),
        [
            ({"name": "Data", "size": "1Gi"}, "name"),
            ({"name": "data", "size": "much"}, "size"),
            ({"name": "data", "size": ""}, "size"),
            ({"name": "data", "size": "1Gi", "access_mode": "Any"}, "access_mode"),
            ({"name": "data", "size": "1Gi", "storage_class": "a b"}, "storage_class"),
        ],
    )
    def test_what_is_wrong_is_said_at_its_field_and_what_was_typed_stays(self, ana, world, typed, field):
        response = ana.post(PAGE, typed)
        assert response.status_code == 422
        assert list(response.context["errors"]) == [field]
        assert response.context["typed"]["name"] == typed["name"]
        assert not AuditEvent.objects.filter(action="volume.created").exists()

    def test_that_the_cluster_is_away_is_a_sentence_on_the_page(self, ana, world):
        page = ana.get(PAGE)
        assert page.status_code == 503
        assert "The cluster does not answer" in page.content.decode()
        sent = ana.post(PAGE, {"name": "data", "size": "1Gi", "access_mode": "ReadWriteMany"})
        assert sent.status_code == 503
        assert 'value="data"' in sent.content.decode()


def _delete_claims(client):
    for each in client.list(kinds.CLAIM, namespace="team-vision").items:
        client.delete(kinds.ref_of(each), uid=each["metadata"]["uid"])
