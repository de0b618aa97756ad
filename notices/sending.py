"""Sends notices: signed webhooks and chat messages over HTTP, mail over SMTP. Knows no transaction; a try takes seconds at most.

A redirect is never followed and of an answer nothing is read but its status and how long it asks to be left alone, so that nobody learns by a notice what a
server says to the portal.
"""

from __future__ import annotations

import asyncio
import json
import smtplib
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

import aiohttp
from aiohttp.resolver import ThreadedResolver
from django.conf import settings
from django.core.mail import EmailMultiAlternatives, get_connection
from django.template.loader import render_to_string
from standardwebhooks import Webhook

from notices.addresses import REFUSED, guarded_socket
from notices.events import REPORTS
from notices.models import Channel, Delivery
from notices.quiet import asked_pause
from notices.sealing import signing_secret, unseal
from notices.texts import chat_text, mail_lines, title_of

ANSWER_SECONDS: Final = 10.0
MAIL_BATCH_SECONDS: Final = 30.0
USER_AGENT: Final = "ml-platform-portal"
_SMTP: Final = "django.core.mail.backends.smtp.EmailBackend"
GONE: Final = 410
_ASK_FOR_A_PAUSE: Final = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Sent:
    """How a try ended. `tried` is false where there was no time for it; `pause` is what the receiver asked for."""

    ok: bool
    status_code: int | None = None
    error: str = ""
    tried: bool = True
    pause: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Post:
    """One request."""

    url: str
    headers: Mapping[str, str]
    body: bytes


def send(deliveries: Sequence[Delivery], *, now: datetime) -> dict[int, Sent]:
    """Try each once, those over HTTP at the same time; how it ended, by the delivery's key."""
    ended: dict[int, Sent] = {}
    posts: dict[int, Post] = {}
    mails = []
    for delivery in deliveries:
        if delivery.subscription.channel == Channel.MAIL:
            mails.append(delivery)
            continue
        try:
            posts[delivery.pk] = post_of(delivery, now=now)
        except ValueError as error:
            ended[delivery.pk] = Sent(ok=False, error=str(error))
    if posts:
        ended |= asyncio.run(_post_all(posts, now))
    return ended | _mail_all(mails)


# --- HTTP


def post_of(delivery: Delivery, *, now: datetime) -> Post:
    """The request that tells it. ValueError where the address cannot be read any more."""
    subscription = delivery.subscription
    url = unseal(subscription.sealed_url)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        "webhook-id": str(delivery.public_id),
        "webhook-timestamp": str(int(now.timestamp())),
    }
    if subscription.channel == Channel.CHAT:
        return Post(url, headers, json.dumps({"text": chat_text(delivery.payload)}).encode())
    body = json.dumps(delivery.payload, separators=(",", ":"), ensure_ascii=False)
    signer = Webhook(signing_secret(subscription))
    headers["webhook-signature"] = signer.sign(str(delivery.public_id), now, body)
    return Post(url, headers, body.encode())


async def _post_all(posts: Mapping[int, Post], now: datetime) -> dict[int, Sent]:
    encrypted = any(urlsplit(post.url).scheme == "https" for post in posts.values())
    connector = aiohttp.TCPConnector(
        resolver=ThreadedResolver(),
        # The certificate is checked against the host name in the address, not against the IP address. The trusted authorities
        # may change while the process runs, so they are read each time; reading is slow, so only if a receiver uses HTTPS.
        ssl=ssl.create_default_context() if encrypted else True,
        use_dns_cache=False,
        force_close=True,
        limit=0,
        socket_factory=guarded_socket,
    )
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, trust_env=False, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        ended = await asyncio.gather(*(_post(session, each, now) for each in posts.values()))
    return dict(zip(posts, ended, strict=True))


async def _post(session: aiohttp.ClientSession, post: Post, now: datetime) -> Sent:
    try:
        async with session.post(
            post.url, data=post.body, headers=post.headers, allow_redirects=False
        ) as answer:
            asked = answer.headers.get("Retry-After", "") if answer.status in _ASK_FOR_A_PAUSE else ""
            return _judged(answer.status, asked_pause(asked, now=now))
    except TimeoutError:
        return Sent(ok=False, error=f"No answer within {ANSWER_SECONDS:.0f} seconds.")
    except aiohttp.ClientConnectorCertificateError:
        return Sent(ok=False, error="The certificate of the receiver is not valid.")
    except aiohttp.ClientConnectorError as error:
        refused = isinstance(error.os_error, PermissionError)
        return Sent(ok=False, error=REFUSED if refused else "No connection to the receiver.")
    except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError):
        return Sent(ok=False, error="The receiver broke off, or gave no answer of HTTP.")


def _judged(status: int, pause: timedelta) -> Sent:
    if 200 <= status < 300:
        return Sent(ok=True, status_code=status)
    if 300 <= status < 400:
        return Sent(ok=False, status_code=status, error="The receiver redirects; redirects are not followed.")
    return Sent(ok=False, status_code=status, error=f"The receiver answered {status}.", pause=pause)


# --- mail


def _mail_all(deliveries: Sequence[Delivery]) -> dict[int, Sent]:
    """Over one connection, as long as there is time."""
    if not deliveries:
        return {}
    if not settings.EMAIL_HOST:
        return {each.pk: Sent(ok=False, error="The portal has no mail server.") for each in deliveries}
    ended: dict[int, Sent] = {}
    until = time.monotonic() + MAIL_BATCH_SECONDS
    connection = get_connection(_SMTP)
    try:
        connection.open()
        for delivery in deliveries:
            if time.monotonic() > until:
                break
            ended[delivery.pk] = _mail(delivery, connection)
    except (smtplib.SMTPException, OSError):
        failed = Sent(ok=False, error="No connection to the mail server.")
        ended = {each.pk: failed for each in deliveries} | ended
    finally:
        connection.close()
    return {each.pk: Sent(ok=False, tried=False) for each in deliveries} | ended


def _mail(delivery: Delivery, connection: Any) -> Sent:
    address = delivery.recipient.email if delivery.recipient else ""
    if not address:
        return Sent(ok=False, error="The person has no mail address.")
    try:
        mail_of(delivery, address, connection).send()
    except smtplib.SMTPRecipientsRefused:
        return Sent(ok=False, error="The mail server refuses the address.")
    except smtplib.SMTPResponseException as error:
        return Sent(ok=False, status_code=error.smtp_code, error="The mail server refuses the mail.")
    except (smtplib.SMTPException, OSError, ValueError):
        return Sent(ok=False, error="The mail server broke off, or the mail cannot be written.")
    return Sent(ok=True, status_code=250)


def mail_of(delivery: Delivery, address: str, connection: Any = None) -> EmailMultiAlternatives:
    """The mail, as text and as HTML. Its Message-ID is the same of every try."""
    told = "report" if delivery.type in REPORTS else "mail"
    context = {
        "title": title_of(delivery.payload),
        "report": delivery.payload["data"],
        "lines": mail_lines(delivery.payload),
        "subscription": delivery.subscription.name,
        "notices_url": f"{settings.PUBLIC_URL}{path_of_subscription(delivery.subscription.public_id)}",
    }
    mail = EmailMultiAlternatives(
        subject=f"[portal] {context['title']}",
        body=render_to_string(f"notices/{told}.txt", context),
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=[address],
        headers={
            "Message-ID": f"<{delivery.public_id}@{urlsplit(settings.PUBLIC_URL).hostname}>",
            "Auto-Submitted": "auto-generated",
        },
        connection=connection,
    )
    mail.attach_alternative(render_to_string(f"notices/{told}.html", context), "text/html")
    return mail


def path_of_subscription(public_id: UUID) -> str:
    """Its page."""
    return f"/notices/{public_id}/"
