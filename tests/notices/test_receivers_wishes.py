"""What a receiver asks for, and who it proves to be: `Retry-After`, and a certificate for its name."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from foundation import clock
from notices.models import Delivery, NoticeSubscription
from notices.quiet import asked_pause
from tests.notices.receiver import Receiver

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120),
        (" 120 ", 120),
        ("0", 0),
        ("Tue, 24 Nov 2026 12:10:00 GMT", 600),
        ("Tuesday, 24-Nov-26 12:10:00 GMT", 600),
        ("Tue Nov 24 12:10:00 2026", 600),
        ("Tue, 24 Nov 2026 11:00:00 GMT", 0),
        ("999999999999999999999999", 3600),
        ("Tue, 24 Nov 2099 12:00:00 GMT", 3600),
        ("", 0),
        ("-5", 0),
        ("1.5", 0),
        ("٣", 0),
        ("soon", 0),
        ("Tue, 99 Nov 2026 12:10:00 GMT", 0),
    ],
)
def test_a_pause_is_asked_for_in_seconds_or_as_a_date_and_is_an_hour_at_most(text, seconds):
    assert asked_pause(text, now=NOON) == timedelta(seconds=seconds)


@pytest.mark.django_db
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("as_date", [False, True])
def test_a_receiver_is_left_alone_for_as_long_as_it_asks(bed, receiver, status, as_date):
    bed.subscribe(url=receiver.url)
    first, second = bed.run(), bed.run()
    bed.fail(first)
    until = bed.now + timedelta(minutes=20)
    asked = f"{until:%a, %d %b %Y %H:%M:%S GMT}" if as_date else "1200"
    receiver.behave = lambda _: (status, {"Retry-After": asked})
    bed.deliver()
    assert len(receiver.got) == 1
    receiver.behave = lambda _: 204
    bed.fail(second)
    bed.later(minutes=19)
    bed.deliver()
    assert len(receiver.got) == 1
    bed.later(minutes=2)
    bed.deliver()
    told = {got.json["data"]["id"] for got in receiver.accepted}
    assert told == {str(run.public_id) for run in (first, second)}
    assert NoticeSubscription.objects.get().held_until is None


@pytest.mark.django_db
def test_one_that_takes_some_and_asks_for_a_pause_has_its_pause(bed, receiver):
    bed.subscribe(url=receiver.url)
    bed.fail(bed.run())
    bed.fail(bed.run())
    receiver.behave = lambda number: 204 if number == 0 else (429, {"Retry-After": "600"})
    bed.deliver()
    assert len(receiver.got) == 2
    row = NoticeSubscription.objects.get()
    assert (row.failures, row.held_until) == (0, bed.now + timedelta(minutes=10))


@pytest.mark.django_db
@pytest.mark.parametrize("status", [500, 404])
def test_of_another_answer_it_is_not_read(bed, receiver, status):
    bed.subscribe(url=receiver.url)
    receiver.behave = lambda _: (status, {"Retry-After": "1200"})
    bed.fail(bed.run())
    bed.deliver()
    assert Delivery.objects.get().next_at == bed.now + timedelta(seconds=5)


def certified(folder, alternative):
    """A server's context with a certificate for `alternative`, and the file of who signed it."""
    now = clock.now()
    key, signer = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])

    def signed(subject, public_key, extension):
        builder = x509.CertificateBuilder(
            subject_name=subject,
            issuer_name=issuer,
            public_key=public_key,
            serial_number=x509.random_serial_number(),
            not_valid_before=now - timedelta(days=1),
            not_valid_after=now + timedelta(days=1),
        )
        made = builder.add_extension(extension, critical=False).sign(signer, hashes.SHA256())
        return made.public_bytes(serialization.Encoding.PEM)

    authority = signed(issuer, signer.public_key(), x509.BasicConstraints(ca=True, path_length=None))
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "receiver")])
    own = signed(subject, key.public_key(), x509.SubjectAlternativeName([alternative]))
    form = serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    (folder / "ca.pem").write_bytes(authority)
    (folder / "server.pem").write_bytes(own + secret)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return context, folder / "ca.pem"


def told_over_tls(bed, tmp_path, monkeypatch, settings, alternative, *, trusted=True):
    """What a server with a certificate for `alternative` got at https://localhost, and how it ended."""
    settings.NOTICE_NETWORKS = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
    context, authority = certified(tmp_path, alternative)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    server = Receiver(context)
    try:
        bed.now = clock.now()
        bed.subscribe(url=f"https://localhost:{server.port}/hook")
        bed.fail(bed.run())
        bed.deliver()
    finally:
        server.stop()
    return [got.json["type"] for got in server.got], Delivery.objects.get()


@pytest.mark.django_db
def test_a_certificate_for_the_name_is_accepted(bed, tmp_path, monkeypatch, settings):
    right = x509.DNSName("localhost")
    got, told = told_over_tls(bed, tmp_path, monkeypatch, settings, right)
    assert (got, told.state, told.error) == (["workload.failed"], "delivered", "")


@pytest.mark.django_db
@pytest.mark.parametrize(
    "other",
    [x509.DNSName("other.example.org"), x509.IPAddress(ip_address("127.0.0.1"))],
    ids=["another name", "the number that is connected to"],
)
def test_a_certificate_for_anything_else_is_refused(bed, tmp_path, monkeypatch, settings, other):
    got, told = told_over_tls(bed, tmp_path, monkeypatch, settings, other)
    assert (got, told.state) == ([], "pending")
    assert told.error == "The certificate of the receiver is not valid."


@pytest.mark.django_db
def test_a_certificate_that_nobody_vouches_for_is_refused(bed, tmp_path, monkeypatch, settings):
    right = x509.DNSName("localhost")
    got, told = told_over_tls(bed, tmp_path, monkeypatch, settings, right, trusted=False)
    assert (got, told.error) == ([], "The certificate of the receiver is not valid.")
