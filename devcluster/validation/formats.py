"""Formats of names and amounts: each function says what is wrong with a value, and nothing where nothing is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from devcluster.objects import quantity

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end "
    "with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_LABEL_KEY = rf"({_SUBDOMAIN}/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_KEY_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL_VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
    "an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_CONFIG_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_VARIABLE_TEXT = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)
QUANTITY_TEXT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
AMOUNT = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|"
    r"(\.[0-9]+))))?$"
)
"""A quantity as the definitions of custom resources have it."""
NOT_NEGATIVE = "must be greater than or equal to 0"

Format = Callable[[Any], str]


def _named(pattern: str, text: str, longest: int) -> Format:
    expression = re.compile(pattern)

    def check(value: Any) -> str:
        if not isinstance(value, str) or not expression.fullmatch(value):
            return text
        return f"must be no more than {longest} bytes" if len(value) > longest else ""

    return check


label = _named(_LABEL, _LABEL_TEXT, 63)
label_1035 = _named(_LABEL_1035, LABEL_1035_TEXT, 63)
subdomain = _named(_SUBDOMAIN, _SUBDOMAIN_TEXT, 253)
label_key = _named(_LABEL_KEY, _LABEL_KEY_TEXT, 317)
label_value = _named(_LABEL_VALUE, _LABEL_VALUE_TEXT, 63)
config_key = _named(r"[-._a-zA-Z0-9]+", _CONFIG_KEY_TEXT, 253)


def amount(value: Any) -> str:
    """A quantity that is not below zero."""
    try:
        return NOT_NEGATIVE if quantity(value) < 0 else ""
    except ValueError:
        return QUANTITY_TEXT


FORMATS: dict[str, Format] = {
    "amount": amount,
    "label": label,
    "port": lambda value: "" if 0 < value < 65536 else "must be between 1 and 65535, inclusive",
    "positive_amount": lambda value: "" if quantity(value) > 0 else "must be positive",
    "variable": _named(r"[^=\x00-\x1f\x7f-\U0010ffff]+", _VARIABLE_TEXT, 1 << 20),
}
"""Those that `fields.yaml` names."""
