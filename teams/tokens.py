"""The form of secrets (pure): `mlp_<id>_<secret><checksum>`, `mle_…` for a token of one endpoint.

The prefix lets scanners find a leaked token, the id lets people recognise one, 256 random bits make the
secret, the checksum refuses a mistyped one without asking the database. Only the SHA-256 is ever stored:
with that much entropy a slow hash adds nothing.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
import zlib

PREFIX = "mlp_"
# What a run's own token begins with: it opens one attempt's checkpoints and progress, never a user's API.
RUN_TOKEN_PREFIX = "mlr_"  # noqa: S105
# What a token of one endpoint begins with: it calls that endpoint through the gateway, and opens nothing else.
ENDPOINT_TOKEN_PREFIX = "mle_"  # noqa: S105
ALPHABET = string.digits + string.ascii_letters
ID_LENGTH = 8
SECRET_LENGTH = 43
CHECKSUM_LENGTH = 6
FOREIGN_LENGTH_MIN = 16
_FORM = re.compile(
    rf"\Aml[pe]_[0-9A-Za-z]{{{ID_LENGTH}}}_[0-9A-Za-z]{{{SECRET_LENGTH}}}[0-9A-Za-z]{{{CHECKSUM_LENGTH}}}\Z"
)
_FOREIGN = re.compile(rf"\A[A-Za-z0-9._~+/=-]{{{FOREIGN_LENGTH_MIN},200}}\Z")


def new_token(prefix: str = PREFIX) -> str:
    """A new token: of a user, or with ENDPOINT_TOKEN_PREFIX of an endpoint."""
    body = f"{prefix}{_random(ID_LENGTH)}_{_random(SECRET_LENGTH)}"
    return body + _checksum(body)


def is_well_formed(plain: str) -> bool:
    """Whether `plain` can be a token at all. One that was brought along (bootstrap) has 16 to 200 characters."""
    if plain.startswith(PREFIX):
        return _is_ours(plain)
    return bool(_FOREIGN.match(plain)) and not plain.startswith((RUN_TOKEN_PREFIX, ENDPOINT_TOKEN_PREFIX))


def is_of_endpoint(plain: str) -> bool:
    """Whether `plain` can be a token of an endpoint."""
    return plain.startswith(ENDPOINT_TOKEN_PREFIX) and _is_ours(plain)


def shown_prefix(plain: str) -> str:
    """The public part: enough to recognise the token, nothing to guess it from."""
    ours = plain.startswith((PREFIX, ENDPOINT_TOKEN_PREFIX))
    return plain[: len(PREFIX) + ID_LENGTH] if ours else f"{plain[:4]}"


def digest(plain: str) -> str:
    """SHA-256 in hex: what is stored and looked up."""
    return hashlib.sha256(plain.encode()).hexdigest()


def new_link_secret() -> str:
    """The secret part of a one-time sign-in link."""
    return _random(SECRET_LENGTH)


def _is_ours(plain: str) -> bool:
    return bool(_FORM.match(plain)) and _checksum(plain[:-CHECKSUM_LENGTH]) == plain[-CHECKSUM_LENGTH:]


def _random(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def _checksum(body: str) -> str:
    value = zlib.crc32(body.encode())
    digits = ""
    for _ in range(CHECKSUM_LENGTH):
        value, rest = divmod(value, len(ALPHABET))
        digits = ALPHABET[rest] + digits
    return digits
