"""Nobody reaches by a notice what only the portal can reach: not when it is typed, changed, redirected or sent."""

from __future__ import annotations

import socket
import threading
from ipaddress import ip_network

import pytest

from foundation.errors import Invalid
from notices import addresses, services
from notices.addresses import LOOKUPS, NO_ADDRESS, REFUSED, check_reachable, guarded_socket, is_allowed
from notices.models import Delivery, NoticeSubscription
from notices.sealing import seal
from teams.actors import Actor
from tests.notices.receiver import Receiver
from tests.tables import each_row

PRIVATE = [
    "127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254",
    "192.0.2.1", "198.18.0.1", "224.0.0.1", "255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254",
    "::127.0.0.1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::", "2001:0:7f00:1::", "2001:db8::1", "localhost", "127.1", "2130706433", "",
    "fec0::1", "64:ff9b:1::7f00:1", "64:ff9b:1:fffe::a9fe:a9fe", "::ffff:0:127.0.0.1", "4000::1",
]  # fmt: skip
TYPED = [
    "https://127.0.0.1/", "https://127.1/", "https://2130706433/", "https://0x7f.0.0.1/", "https://0177.0.0.1/",
    "https://localhost/", "https://LOCALHOST./", "https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/",
    "https://169.254.169.254/latest/meta-data/", "https://0/", "https://[fe80::1]/", "https://[64:ff9b::7f00:1]/",
    "https://10.0.0.1:6443/", "https://example.org@127.0.0.1/", "https://127.0.0.1#@example.org/",
    "https://127.0.0.1\\@example.org/", "http://127.0.0.1/", "https:///etc/passwd", "file:///etc/passwd", "gopher://127.0.0.1/",
]  # fmt: skip


@pytest.fixture
def names(monkeypatch):
    """What names mean, as the machine's own resolver would say it: {name: [addresses]}, changed while a test runs."""
    known: dict[str, list[str]] = {}
    asked: list[str] = []
    original = socket.getaddrinfo

    def lookup(host, port, *args, **kwargs):
        if host not in known:
            return original(host, port, *args, **kwargs)
        asked.append(host)
        numbers = known[host]
        number = numbers.pop(0) if len(numbers) > 1 else numbers[0]
        return original(number, port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    return known, asked


@each_row("address", PRIVATE)
def test_an_address_that_is_not_public_is_not_allowed(address):
    assert not is_allowed(address)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
)
def test_a_public_one_is(address):
    assert is_allowed(address)


def test_the_operator_allows_networks_and_no_more(settings):
    settings.NOTICE_NETWORKS = (ip_network("10.1.0.0/16"),)
    assert [is_allowed(each) for each in ("10.1.2.3", "::ffff:10.1.2.3", "10.2.0.1", "127.0.0.1")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("url", TYPED)
def test_it_is_refused_when_it_is_typed(url):
    with pytest.raises(Invalid) as refused:
        check_reachable(url, asker=1)
    assert refused.value.errors[0].field == "url"


def test_a_name_that_means_a_private_address_among_others_is_refused(names, settings):
    known, _ = names
    known["both.example.org"] = ["1.1.1.1", "10.0.0.1"]
    check_reachable("https://both.example.org/", asker=1)
    with pytest.raises(Invalid):
        check_reachable("https://both.example.org/", asker=1)


@pytest.mark.parametrize("host", ["nothing.example.org", "db.internal"])
def test_a_name_that_is_there_and_one_that_is_not_are_refused_alike(names, host):
    """What names the portal's network knows is told to nobody: they could be guessed one by one."""
    known, _ = names
    known |= {"nothing.example.org": ["no number"], "db.internal": ["10.0.0.2"]}
    with pytest.raises(Invalid) as refused:
        check_reachable(f"https://{host}/", asker=1)
    assert refused.value.errors[0].message == NO_ADDRESS


@pytest.mark.parametrize("host", ["10.0.0.1", "[::1]"])
def test_a_number_that_is_not_public_is_told_so(host):
    with pytest.raises(Invalid) as refused:
        check_reachable(f"https://{host}/", asker=1)
    assert refused.value.errors[0].message == REFUSED


def test_a_name_service_that_does_not_answer_keeps_no_thread_and_one_look_up_of_each_who_asks(monkeypatch):
    """Whoever owns the name says how long it takes: threads of pages waited for as long."""
    asked, answers = threading.Semaphore(0), threading.Event()

    def slow(*_args, **_more):
        asked.release()
        answers.wait()
        raise OSError

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    monkeypatch.setattr(addresses, "LOOKUP_SECONDS", 0.05)
    try:
        for asker in range(LOOKUPS):
            with pytest.raises(Invalid, match="no address"):
                check_reachable("https://slow.example.org/", asker=asker)
            with pytest.raises(Invalid, match="try again in a moment"):
                check_reachable("https://slow.example.org/", asker=asker)
        with pytest.raises(Invalid, match="try again in a moment"):
            check_reachable("https://slow.example.org/", asker=LOOKUPS)
        assert [asked.acquire(blocking=False) for _ in range(LOOKUPS + 1)] == [True] * LOOKUPS + [False]
    finally:
        answers.set()
        for thread in threading.enumerate():
            if thread.name == "notice-name":
                thread.join()


def test_http_is_for_the_operators_networks_alone(settings):
    with pytest.raises(Invalid):
        check_reachable("http://1.1.1.1/", asker=1)
    settings.NOTICE_NETWORKS = (ip_network("127.0.0.0/8"),)
    check_reachable("http://127.0.0.1:9/", asker=1)


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::1"])
def test_no_socket_is_made_for_it_whatever_led_there(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with pytest.raises(PermissionError):
        guarded_socket((family, socket.SOCK_STREAM, 6, "", (address, 443)))


@pytest.mark.django_db
def test_a_change_is_refused_like_a_new_one(bed, receiver, settings):
    row, _ = bed.subscribe(url=receiver.url)
    settings.NOTICE_NETWORKS = ()
    with pytest.raises(Invalid):
        services.update_subscription(
            actor=Actor.of_user(bed.ana), subscription=row, changes={"url": receiver.url}, now=bed.now
        )


@pytest.mark.django_db
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "rebound.example.org"])
def test_what_is_refused_when_it_is_sent_reaches_nobody(bed, receiver, settings, names, host):
    """The name may have meant something else when it was typed; the row may be from before the rule."""
    known, _ = names
    known["rebound.example.org"] = ["127.0.0.1"]
    bed.subscribe(url=receiver.url)
    NoticeSubscription.objects.update(sealed_url=seal(f"http://{host}:{receiver.port}/hook"))
    settings.NOTICE_NETWORKS = ()
    bed.fail(bed.run())
    bed.deliver()
    assert receiver.got == []
    assert Delivery.objects.get().error == REFUSED


@pytest.mark.django_db
def test_a_name_that_changes_between_check_and_connection_leads_nowhere(
    bed, receiver, settings, names, monkeypatch
):
    """The number that was looked at is the number that is connected to: there is no second look-up."""
    known, asked = names
    settings.NOTICE_NETWORKS = (ip_network("127.0.0.2/32"),)
    known["rebinds.example.org"] = ["127.0.0.2", "127.0.0.2", "127.0.0.1"]
    bed.subscribe(url=f"http://rebinds.example.org:{receiver.port}/hook")
    made: list[str] = []
    original = addresses.is_allowed
    monkeypatch.setattr(addresses, "is_allowed", lambda number: made.append(number) or original(number))
    bed.fail(bed.run())
    bed.deliver()
    # It asked once, was told an allowed number where nobody listens, and connected to that one alone.
    assert (asked, made) == (["rebinds.example.org"] * 2, ["127.0.0.2"])
    bed.later(minutes=1)
    bed.deliver()
    assert made == ["127.0.0.2", "127.0.0.1"]
    assert receiver.got == []


@pytest.mark.django_db
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(bed, receiver, status):
    inside = Receiver()
    try:
        bed.subscribe(url=receiver.url)
        receiver.behave = lambda _: (status, {"Location": inside.url})
        bed.fail(bed.run())
        bed.deliver()
        told = Delivery.objects.get()
    finally:
        inside.stop()
    assert (inside.got, len(receiver.got)) == ([], 1)
    assert (told.state, told.status_code) == ("pending", status)
    assert "not followed" in told.error


@pytest.mark.django_db
def test_what_a_receiver_answers_is_shown_to_nobody(bed, receiver):
    bed.subscribe(url=receiver.url)
    receiver.behave = lambda _: (500, {"X-Secret": "canary", "Set-Cookie": "canary=1"})
    bed.fail(bed.run())
    bed.deliver()
    assert "canary" not in str(list(Delivery.objects.values()))
    bed.later(minutes=1)
    bed.deliver()
    assert "cookie" not in receiver.got[1].headers
