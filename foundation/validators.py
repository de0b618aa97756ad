"""Validators of lists of texts in rows and in REST."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django.core.exceptions import ValidationError

ENTRIES_MAX = 64
ENTRY_LENGTH_MAX = 512
_IMAGE_PREFIX = re.compile(
    r"[A-Za-z0-9][-A-Za-z0-9.]*(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*/?", re.ASCII
)


def check_each(value: Any, why_not: Callable[[str], str | None]) -> None:
    """Raise ValidationError unless `value` is a short list of different texts of which `why_not` has nothing to say."""
    if not isinstance(value, list) or len(value) > ENTRIES_MAX:
        raise ValidationError(f"Give a list of at most {ENTRIES_MAX} texts.", code="invalid")
    for item in value:
        text = item if isinstance(item, str) and len(item) <= ENTRY_LENGTH_MAX else None
        why = "it is no text, or too long" if text is None else why_not(text)
        if why is not None:
            raise ValidationError(f"{str(item)[:80]!r} will not do: {why}.", code="invalid_value")
    if len(set(value)) < len(value):
        raise ValidationError("An entry is named twice.", code="duplicate")


def validate_image_prefixes(value: Any) -> None:
    """A list of registries, or of registries with the beginning of a path. Raises ValidationError."""
    check_each(value, _image_prefix)


def _image_prefix(text: str) -> str | None:
    if _IMAGE_PREFIX.fullmatch(text):
        return None
    return "write a registry or the beginning of a name, such as ghcr.io/acme, without tag and digest"
