"""Which profile of Pod Security a team's namespace enforces, what preflight says of it, and that the API server holds to it."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from cluster import kinds
from cluster.errors import ClusterRejected
from cluster.kinds import ObjectRef
from foundation import clock
from foundation.models import PlatformSettings
from portal.preflight import pod_security_profile
from teams.pod_security import level_of
from teams.services import update_team
from tenancy.namespaces import ensure_namespace
from tests.controller.endpoints import offer
from tests.factories.teams import ACTOR, api_client, make_member, make_team, make_user

REAL_ONLY = pytest.mark.parametrize(
    "client", [pytest.param("real", marks=pytest.mark.cluster)], indirect=True
)
ALL = ["pytorchjob", "tfjob", "mpijob", "mpijob-v1", "trainjob"]
RESTRICTED, BASELINE = "restricted", "baseline"


def settings_are(**values):
    PlatformSettings.objects.update_or_create(pk=1, defaults=values)


def profile():
    found = pod_security_profile(None)
    return found.status, found.detail, found.fix


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("served", "named", "level"),
    [
        ((), ALL, RESTRICTED),
        ((kinds.PYTORCH_JOB,), ["pytorchjob"], BASELINE),
        ((kinds.PYTORCH_JOB,), [], RESTRICTED),
        ((kinds.TF_JOB, kinds.MPI_JOB_V2), ALL, RESTRICTED),
        ((kinds.MPI_JOB,), ["mpijob"], RESTRICTED),
        ((kinds.MPI_JOB,), ["mpijob", "mpijob-v1"], BASELINE),
        ((kinds.TRAIN_JOB,), ["trainjob"], BASELINE),
    ],
)
def test_it_is_restricted_unless_a_kind_is_offered_whose_pods_that_refuses(served, named, level):
    for kind in served:
        offer(kind)
    settings_are(optional_kinds=named)
    assert level_of(make_team()) == level


@pytest.mark.django_db
def test_an_admin_says_otherwise_for_the_platform_and_for_a_team():
    team = make_team()
    settings_are(pod_security=BASELINE)
    assert level_of(team) == BASELINE
    team.pod_security = RESTRICTED
    assert level_of(team) == RESTRICTED
    offer(kinds.PYTORCH_JOB)
    settings_are(pod_security=RESTRICTED)
    team.pod_security = BASELINE
    assert level_of(team) == BASELINE
    team.pod_security = "automatic"
    assert level_of(team) == RESTRICTED
    team.may_run_as_root = True
    assert level_of(team) == BASELINE, "else the permission would be none"


@pytest.mark.django_db
def test_preflight_names_the_profile_what_holds_it_back_and_what_to_do():
    settings_are(optional_kinds=["pytorchjob"])
    assert profile() == ("ok", "restricted.", "")
    make_team("vision", may_run_as_root=True)
    status, detail, fix = profile()
    assert (status, "baseline for vision" in detail, "automatic" in fix) == ("warn", True, True)
    offer(kinds.PYTORCH_JOB)
    status, detail, fix = profile()
    assert (status, detail.startswith("baseline"), "PyTorchJob: the training operator" in detail) == (
        "warn",
        True,
        True,
    )
    assert "deploy/training-operator-init-container.yaml" in fix
    settings_are(optional_kinds=[], pod_security=BASELINE)
    assert "every kind that is offered passes restricted" in profile()[1]


@pytest.mark.django_db
def test_who_declares_the_operator_mended_is_believed_and_reminded():
    offer(kinds.PYTORCH_JOB)
    settings_are(optional_kinds=["pytorchjob"], pod_security=RESTRICTED)
    status, detail, _ = profile()
    assert (status, "Refused unless that was mended: PyTorchJob" in detail) == ("ok", True)


def enforced(bench):
    namespace = bench.client.get(ObjectRef("v1", "Namespace", "", bench.team.namespace_name))
    return namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]


@pytest.mark.django_db(transaction=True)
def test_the_namespace_follows_what_is_offered_and_what_an_admin_says(bench):
    settings_are(optional_kinds=["pytorchjob"])
    ensure_namespace(bench.client, bench.team)
    assert enforced(bench) == RESTRICTED
    offer(kinds.PYTORCH_JOB)
    ensure_namespace(bench.client, bench.team)
    assert enforced(bench) == BASELINE
    team = update_team(actor=ACTOR, team=bench.team, changes={"pod_security": RESTRICTED}, now=clock.now())
    ensure_namespace(bench.client, team)
    assert enforced(bench) == RESTRICTED


@REAL_ONLY
@pytest.mark.django_db(transaction=True)
def test_a_pod_past_the_portal_is_refused_unless_it_passes_restricted(bench):
    """Whoever has credentials of the namespace: where Jobs alone are offered, nothing need be let pass."""
    ensure_namespace(bench.client, bench.team)
    metadata = {"name": "bare", "namespace": bench.team.namespace_name}
    bare = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "serviceAccountName": "mlportal-workload",
            "containers": [{"name": "main", "image": "busybox"}],
        },
    }
    with pytest.raises(ClusterRejected, match=r'violates PodSecurity "restricted:latest".*seccompProfile'):
        bench.client.create(bare)


@pytest.mark.django_db
def test_members_are_told_in_rest_and_on_the_page_and_a_list_asks_once(django_assert_num_queries):
    team = make_team("vision")
    ana = make_member(team=team).user
    rest = api_client(ana)
    path = f"/api/v1/teams/{team.slug}/"
    assert rest.get(path).json()["pod_security_enforced"] == RESTRICTED
    offer(kinds.PYTORCH_JOB)
    settings_are(optional_kinds=["pytorchjob"])
    told = rest.get(path).json()
    assert (told["pod_security"], told["pod_security_enforced"]) == ("automatic", BASELINE)
    browser = Client()
    browser.force_login(ana)
    assert "Pod Security <code>baseline</code>" in browser.get("/teams/vision/").content.decode()
    with CaptureQueriesContext(connection) as few:
        rest.get("/api/v1/teams/")
    for slug in ("speech", "nlp"):
        make_member(team=make_team(slug), user=ana)
    with django_assert_num_queries(len(few)):
        rows = rest.get("/api/v1/teams/").json()["results"]
    assert [row["pod_security_enforced"] for row in rows] == [BASELINE] * 3


@pytest.mark.django_db
def test_what_is_enforced_is_no_field_that_anybody_sets():
    team = make_team("vision")
    admin = api_client(make_user("root", platform_admin=True))
    answer = admin.patch(f"/api/v1/teams/{team.slug}/", {"pod_security_enforced": BASELINE})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["code"] == "unknown_field"
