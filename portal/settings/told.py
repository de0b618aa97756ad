"""What people may see of the environment: names, where each value is from, and no secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from portal.settings.env import KNOWN, SECRETS

_USER_OF_URL: Final = re.compile(r"(?<=//)[^/@]*@")


@dataclass(frozen=True)
class Told:
    """A variable. `source`: environment, file or default; `value` empty for a secret and for what has none."""

    name: str
    value: str
    source: str
    secret: bool


def told(variables: Mapping[str, str], effective: Mapping[str, object]) -> tuple[Told, ...]:
    """Every variable of the portal. `effective` are values that were made up from others where nothing is given."""
    rows = []
    for name in KNOWN:
        given, secret = variables.get(name, "").strip(), name in SECRETS
        source = "environment" if given else "file" if f"{name}_FILE" in variables else "default"
        value = "" if secret else _USER_OF_URL.sub("", given or str(effective.get(name, "")))
        rows.append(Told(name, value, source, secret))
    return tuple(rows)
