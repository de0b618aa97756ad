"""A server that hangs costs a process a few time-outs, not one for every call."""

from __future__ import annotations

import pytest
from cluster_faults import status

from cluster import breaker, kinds, transport
from cluster.client import connect
from cluster.errors import ClusterUnavailable, ObjectNotFound

REF = kinds.ObjectRef("v1", "ConfigMap", "team-a", "data")
FOUND = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "data", "namespace": "team-a"}}


@pytest.fixture
def hasty(faulty):
    # Every silence costs a test this long; an answer must come within it on a machine that does much else.
    found = connect(str(faulty.kubeconfig), timeout=(5.0, 0.5))
    yield found
    found.close()


@pytest.fixture
def rests(monkeypatch):
    """Move the clock of the breaker by so many seconds."""
    real, ahead = breaker.time.monotonic, [0.0]
    monkeypatch.setattr(breaker.time, "monotonic", lambda: real() + ahead[0])

    def rest(seconds=breaker.REST_SECONDS):
        ahead[0] += seconds

    return rest


def hangs(exchange):
    exchange.hang()


def answers(exchange):
    exchange.reply(200, FOUND)


def ask(client, times=1):
    for _ in range(times):
        with pytest.raises(ClusterUnavailable):
            client.get(REF)


def test_after_three_time_outs_in_a_row_nobody_waits_for_it_any_more(faulty, hasty):
    faulty.script = hangs
    ask(hasty, 20)
    assert len(faulty.requests) == breaker.OPENS_AFTER
    with pytest.raises(ClusterUnavailable, match="asked again in a few seconds") as caught:
        hasty.create(FOUND)
    assert not caught.value.outcome_unknown, "nothing was sent"


def test_one_caller_asks_for_all_and_its_answer_lets_everybody_ask(faulty, hasty, rests):
    faulty.script = hangs
    ask(hasty, 5)
    rests()
    ask(hasty, 5)
    assert len(faulty.requests) == breaker.OPENS_AFTER + 1, "one probe, and silence opens it anew"
    faulty.script = answers
    ask(hasty)
    rests()
    assert [hasty.get(REF) for _ in range(3)] == [FOUND] * 3


def test_an_answer_in_between_begins_the_count_anew(faulty, hasty):
    for _ in range(2):
        faulty.script = hangs
        ask(hasty, breaker.OPENS_AFTER - 1)
        faulty.script = lambda exchange: exchange.reply(404, status(404, "NotFound", "no"))
        with pytest.raises(ObjectNotFound):
            hasty.get(REF)


def test_what_fails_at_once_is_asked_every_time(faulty, hasty):
    faulty.script = lambda exchange: exchange.reply(503, {})
    ask(hasty, 6)
    assert len(faulty.requests) == 6
    faulty.write_kubeconfig(server="http://127.0.0.1:1")
    for _ in range(5):
        with pytest.raises(ClusterUnavailable, match="cannot be reached"):
            hasty.get(REF)


def test_the_silence_of_a_node_or_a_service_is_not_the_servers(faulty, hasty):
    faulty.script = hangs
    for _ in range(2):
        with pytest.raises(ClusterUnavailable, match="did not answer"):
            hasty.read_log("team-a", "pod")
        with (
            pytest.raises(ClusterUnavailable, match="did not answer"),
            hasty.exchange("GET", "/proxy", headers={}, body=None, timeout=(1.0, 0.05)),
        ):
            pass
    faulty.script = answers
    assert hasty.get(REF) == FOUND


def test_an_answer_that_trickles_is_given_up_and_counts_as_silence(faulty, faulty_client, monkeypatch):
    monkeypatch.setattr(transport, "WHOLE_ANSWER_SECONDS", 0.0)

    def script(exchange):
        exchange.start()
        exchange.chunk(b'{"kind":')
        exchange.chunk(b'"ConfigMap"}')
        exchange.finish()

    faulty.script = script
    with pytest.raises(ClusterUnavailable, match="did not answer in time"):
        faulty_client.get(REF)
