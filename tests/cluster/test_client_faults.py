"""What the client makes of a cluster that is slow, broken, overloaded or gone."""

from __future__ import annotations

import json
import logging

import pytest
import yaml
from cluster_faults import status

from cluster import kinds
from cluster.client import connect
from cluster.errors import (
    ClusterConflict,
    ClusterExpired,
    ClusterRejected,
    ClusterUnavailable,
    ObjectNotFound,
)

REF = kinds.ObjectRef("v1", "ConfigMap", "team-a", "data")
OURS = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {
        "name": "data",
        "namespace": "team-a",
        "labels": {"mlportal.dev/workload-id": "w-1"},
        "uid": "u-1",
    },
}


@pytest.fixture
def hasty_client(faulty):
    found = connect(str(faulty.kubeconfig), timeout=(1.0, 0.2))
    yield found
    found.close()


def answer(code, document, **options):
    return lambda exchange: exchange.reply(code, document, **options)


def test_too_many_requests_carry_the_servers_wish(faulty, faulty_client):
    faulty.script = answer(429, status(429, "TooManyRequests", "slow down"), headers=[("Retry-After", "7")])
    with pytest.raises(ClusterUnavailable, match="slow down") as caught:
        faulty_client.get(REF)
    assert caught.value.retry_after == 7.0
    assert not caught.value.outcome_unknown
    assert len(faulty.requests) == 1


@pytest.mark.parametrize("code", [500, 502, 503, 504])
def test_a_fault_of_the_server_is_unavailable_and_its_outcome_unknown_for_writes(faulty, faulty_client, code):
    faulty.script = answer(code, None, body=b"<html>bad gateway</html>", content_type="text/html")
    with pytest.raises(ClusterUnavailable) as read:
        faulty_client.get(REF)
    with pytest.raises(ClusterUnavailable) as written:
        faulty_client.apply(OURS)
    assert (read.value.outcome_unknown, written.value.outcome_unknown) == (False, True)


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (400, "BadRequest", ClusterRejected),
        (403, "Forbidden", ClusterRejected),
        (404, "NotFound", ObjectNotFound),
        (409, "Conflict", ClusterConflict),
        (410, "Expired", ClusterExpired),
        (422, "Invalid", ClusterRejected),
        (501, "NotImplemented", ClusterRejected),
    ],
)
def test_every_answer_has_its_error_with_the_servers_message(faulty, faulty_client, code, reason, error):
    causes = [{"field": "spec.x", "message": "must be y"}]
    faulty.script = answer(code, status(code, reason, "the server's message", causes=causes))
    with pytest.raises(error, match="the server's message") as caught:
        faulty_client.get(REF)
    if error is ClusterRejected:
        assert caught.value.causes == (("spec.x", "must be y"),)
        assert caught.value.status == code


def test_a_half_open_connection_ends_after_the_read_timeout(faulty, hasty_client):
    faulty.script = lambda exchange: exchange.hang()
    with pytest.raises(ClusterUnavailable, match="did not answer in time") as caught:
        hasty_client.get(REF)
    assert "read timeout=0.2" in str(caught.value.__cause__)


def test_nobody_listening_is_unavailable_and_surely_not_sent(faulty):
    faulty.write_kubeconfig(server="http://127.0.0.1:1")
    with pytest.raises(ClusterUnavailable, match="cannot be reached") as caught:
        connect(str(faulty.kubeconfig)).create(OURS)
    assert not caught.value.outcome_unknown


def test_a_create_whose_answer_is_lost_finds_its_object(faulty, hasty_client):
    def script(exchange):
        if exchange.request.method == "POST":
            exchange.hang()
        else:
            exchange.reply(200, OURS)

    faulty.script = script
    assert hasty_client.create_or_adopt(OURS, workload_id="w-1")["metadata"]["uid"] == "u-1"
    with pytest.raises(ClusterConflict, match="belongs to workload w-1"):
        hasty_client.create_or_adopt(OURS, workload_id="w-2")
    assert [request.method for request in faulty.requests] == ["POST", "GET", "POST", "GET"]


def test_a_create_that_was_lost_stays_unavailable_so_that_it_is_repeated(faulty, faulty_client):
    def script(exchange):
        if exchange.request.method == "POST":
            exchange.cut()
        else:
            exchange.reply(404, status(404, "NotFound", "no"))

    faulty.script = script
    with pytest.raises(ClusterUnavailable) as caught:
        faulty_client.create_or_adopt(OURS, workload_id="w-1")
    assert caught.value.outcome_unknown


def test_only_a_read_is_repeated_on_a_dropped_connection(faulty, faulty_client):
    def script(exchange):
        if len(faulty.requests) == 1:
            exchange.cut()
        else:
            exchange.reply(200, OURS)

    faulty.script = script
    assert faulty_client.get(REF)["metadata"]["uid"] == "u-1"
    faulty.requests.clear()
    with pytest.raises(ClusterUnavailable):
        faulty_client.create(OURS)
    assert len(faulty.requests) == 1


def test_a_body_that_breaks_off_is_unavailable(faulty, faulty_client):
    def script(exchange):
        exchange.start(length=1000)
        exchange.chunk(b"{")
        exchange.cut()

    faulty.script = script
    with pytest.raises(ClusterUnavailable):
        faulty_client.get(REF)


def test_an_answer_that_is_no_object_is_unavailable(faulty, faulty_client):
    faulty.script = answer(200, ["not", "an", "object"])
    with pytest.raises(ClusterUnavailable, match="not a JSON object"):
        faulty_client.get(REF)


def test_a_redirect_is_not_followed_with_our_token(faulty, faulty_client):
    faulty.script = answer(307, {}, headers=[("Location", faulty.url + "/elsewhere")])
    faulty_client.get(REF)
    assert [request.path for request in faulty.requests] == ["/api/v1/namespaces/team-a/configmaps/data"]


def test_refused_credentials_are_loaded_anew_once(faulty, faulty_client):
    def script(exchange):
        right = exchange.request.headers["authorization"] == f"Bearer {faulty.token}"
        if right and faulty.token == "second":
            exchange.reply(200, OURS)
        else:
            exchange.reply(401, status(401, "Unauthorized", "Unauthorized"))

    faulty.script = script
    faulty_client.connection()
    with pytest.raises(ClusterUnavailable, match="does not accept the portal's credentials"):
        faulty_client.get(REF)
    assert len(faulty.requests) == 2
    faulty.token = "second"
    faulty.write_kubeconfig()
    assert faulty_client.get(REF)["metadata"]["uid"] == "u-1"


def test_a_rewritten_kubeconfig_is_picked_up(faulty, faulty_client):
    faulty.script = answer(200, OURS)
    right = faulty.url
    faulty.write_kubeconfig(server="http://127.0.0.1:1")
    with pytest.raises(ClusterUnavailable):
        faulty_client.get(REF)
    faulty.write_kubeconfig(server=right)
    assert faulty_client.get(REF)["metadata"]["uid"] == "u-1"


def with_plugin(faulty, script):
    text = yaml.safe_load(faulty.kubeconfig.read_text())
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script]}
    text["users"][0]["user"] = {"exec": plugin | {"interactiveMode": "Never"}}
    faulty.kubeconfig.write_text(yaml.safe_dump(text))


def test_a_credential_plugin_gives_the_token(faulty, faulty_client):
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "from-plugin"},
    }
    with_plugin(faulty, f"echo '{json.dumps(credential)}'")
    faulty.script = answer(200, OURS)
    faulty_client.get(REF)
    assert faulty.requests[0].headers["authorization"] == "Bearer from-plugin"


def test_a_credential_plugin_that_fails_is_said_in_the_log(faulty, faulty_client, caplog):
    with_plugin(faulty, "exit 3")
    faulty.script = answer(403, status(403, "Forbidden", "anonymous may not"))
    with pytest.raises(ClusterRejected, match="anonymous"):
        faulty_client.get(REF)
    assert "gives no credentials" in caplog.text


def test_a_cluster_on_this_machine_is_not_reached_through_a_proxy(faulty, faulty_client, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    faulty.script = answer(200, OURS)
    assert faulty_client.get(REF)["metadata"]["uid"] == "u-1"


@pytest.mark.parametrize("text", [None, "", "{", "clusters: [", "apiVersion: v1", "token: s3cret: s3cret"])
def test_a_kubeconfig_that_cannot_be_used_is_named_and_never_quoted(tmp_path, text):
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ClusterUnavailable, match=str(path)) as caught:
        connect(str(path)).version()
    assert "s3cret" not in str(caught.value)


def test_outside_a_cluster_the_in_cluster_configuration_says_so():
    with pytest.raises(ClusterUnavailable, match="in-cluster"):
        connect("in-cluster").version()


def test_no_log_line_holds_a_token_or_a_body(faulty, faulty_client, caplog):
    faulty.token = "very-secret-token"
    faulty.write_kubeconfig()
    faulty.script = answer(500, status(500, "InternalError", "no"))
    body = {**OURS, "data": {"key": "very-secret-body"}}
    with caplog.at_level(logging.DEBUG), pytest.raises(ClusterUnavailable) as caught:
        faulty_client.apply(body)
    assert "very-secret" not in caplog.text
    assert "very-secret" not in repr(caught.value)
    assert faulty.requests[0].headers["authorization"] == "Bearer very-secret-token"


def test_an_expired_page_starts_the_list_again_once(faulty, faulty_client):
    def script(exchange):
        if "continue=" not in exchange.request.path:
            page = {"metadata": {"continue": "t", "resourceVersion": "1"}, "items": [OURS]}
            exchange.reply(200, page)
        elif len(faulty.requests) == 2:
            exchange.reply(410, status(410, "Expired", "too old"))
        else:
            exchange.reply(200, {"metadata": {"resourceVersion": "1"}, "items": [OURS]})

    faulty.script = script
    assert len(faulty_client.list(kinds.CONFIG_MAP).items) == 2
    assert len(faulty.requests) == 4


def test_a_group_whose_server_is_down_hides_no_other(faulty, faulty_client):
    def script(exchange):
        path = exchange.request.path
        if path == "/apis":
            groups = [
                {"versions": [{"groupVersion": "metrics.k8s.io/v1beta1"}]},
                {"versions": [{"groupVersion": "batch/v1"}]},
            ]
            exchange.reply(200, {"groups": groups})
        elif "metrics" in path:
            exchange.reply(503, status(503, "ServiceUnavailable", "down"))
        else:
            kind = "Job" if "batch" in path else "Pod"
            exchange.reply(
                200, {"resources": [{"name": "x", "kind": kind}, {"name": "x/status", "kind": kind}]}
            )

    faulty.script = script
    assert faulty_client.served_kinds() == {("v1", "Pod"), ("batch/v1", "Job")}


def test_a_log_is_followed_line_by_line_until_it_ends_or_falls_silent(faulty, faulty_client):
    def script(exchange):
        exchange.start(content_type="text/plain")
        for piece in (b"one\ntw", b"o\n", b"no newline"):
            exchange.chunk(piece)
        if "tailLines" in exchange.request.path:
            exchange.finish()
        else:
            exchange.hang()

    faulty.script = script
    assert list(faulty_client.follow_log("team-a", "pod", tail_lines=5)) == [
        b"one\n",
        b"two\n",
        b"no newline",
    ]
    lines = faulty_client.follow_log("team-a", "pod", silence_seconds=0.2)
    assert [next(lines), next(lines)] == [b"one\n", b"two\n"]
    with pytest.raises(ClusterUnavailable, match="broke"):
        next(lines)
