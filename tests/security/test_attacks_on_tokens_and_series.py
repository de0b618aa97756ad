"""A token that is lost, and what pods say of other teams' pods."""

from __future__ import annotations

import pytest
import yaml

from inference.manifests import build_endpoint
from teams.models import ApiToken
from tests.factories.teams import api_client, make_user
from tests.inference.test_runtimes import spec_of
from tests.manifest_samples import placement
from tests.runtime.raw_http import ROOT


@pytest.mark.django_db
def test_a_token_makes_none_that_outlives_it():
    user = make_user()
    client = api_client(user, expires_in_days=1)
    wanted = {"name": "child", "scopes": ["read", "manage"], "expires_in_days": 365}
    answer = client.post("/api/v1/tokens/", wanted)
    if answer.status_code == 201:
        ends = dict(ApiToken.objects.filter(user=user).values_list("name", "expires_at"))
        assert ends["child"] <= ends["tests"]


@pytest.mark.django_db
def test_what_a_token_made_ends_with_it():
    user = make_user()
    client = api_client(user)
    answer = client.post("/api/v1/tokens/", {"name": "child", "scopes": ["read"], "expires_in_days": 1})
    if answer.status_code == 201:
        parent = ApiToken.objects.get(user=user, name="tests")
        api_client(user, name="owner").delete(f"/api/v1/tokens/{parent.public_id}/")
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {answer.json()['secret']}")
        assert client.get("/api/v1/me/").status_code == 401


def test_a_pod_monitor_takes_no_series_that_only_the_platform_says():
    where = placement("a", "endpoint", resource_name="nvidia.com/gpu", pod_monitors=True)
    manifests = build_endpoint(spec_of("triton", model={"claim": "m"}), where, replicas=1)
    (monitor,) = [each for each in manifests.dependants if each["kind"] == "PodMonitor"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    dropped = [each for each in endpoint.get("metricRelabelings", ()) if each.get("action") == "drop"]
    assert any("DCGM_FI_" in each["regex"] and "mlportal_" in each["regex"] for each in dropped)


def test_the_portals_account_may_not_make_a_namespace_for_privileged_pods():
    """Its Jobs there would be root on the nodes: with that it is an admin of the cluster."""
    policies = [
        each
        for each in yaml.safe_load_all((ROOT / "deploy" / "admission.yaml").read_text())
        if each["kind"] == "ValidatingAdmissionPolicy"
    ]
    held = [
        each
        for each in policies
        for rule in each["spec"]["matchConstraints"]["resourceRules"]
        if "namespaces" in rule["resources"] and {"CREATE", "UPDATE"} <= set(rule["operations"])
    ]
    said = " ".join(one["expression"] for each in held for one in each["spec"]["validations"])
    assert "pod-security.kubernetes.io/enforce" in said
