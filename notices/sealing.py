"""Credentials of subscriptions: addresses are kept encrypted, the secrets of signatures are kept nowhere."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any, Final

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings

_ADDRESSES: Final = b"notices: addresses"
_SIGNATURES: Final = b"notices: signatures"
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - what every such secret begins with


def _key(purpose: bytes) -> bytes:
    return hmac.new(settings.SECRET_KEY.encode(), purpose, hashlib.sha256).digest()


def seal(text: str) -> str:
    """The text, which only a portal with the same `PORTAL_SECRET_KEY` reads again."""
    return Fernet(base64.urlsafe_b64encode(_key(_ADDRESSES))).encrypt(text.encode()).decode("ascii")


def unseal(sealed: str) -> str:
    """ValueError where it was sealed with another key."""
    try:
        opened = Fernet(base64.urlsafe_b64encode(_key(_ADDRESSES))).decrypt(sealed.encode("ascii"))
    except InvalidToken as error:
        raise ValueError("The portal's key has changed: enter the address again.") from error
    return opened.decode()


def signing_secret(subscription: Any) -> str:
    """The secret that signs the subscription's webhooks: derived, as the tokens of runs are, and never stored."""
    text = f"{subscription.public_id}:{subscription.secret_version}".encode()
    digest = hmac.new(_key(_SIGNATURES), text, hashlib.sha256).digest()
    return SECRET_PREFIX + base64.b64encode(digest).decode("ascii")
