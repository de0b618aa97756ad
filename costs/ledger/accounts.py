"""The accounts of the ledger. Pure.

| account | pays for, or receives |
|---|---|
| `team:<slug>` | what the team's pods held |
| `supply:<card>:<capacity>` | the other side: the card-hours that nodes offered |
| `idle:<card>:<capacity>` | what nobody held although a flavor offers it |
| `stranded:<card>:<capacity>` | what no flavor can use: cut into no slice, or broken |
| `lost:<card>:<capacity>` | work of teams that the platform destroyed, and credits them |
| `platform:adjustment` | what is charged to nobody, with a reason |
"""

from __future__ import annotations

TEAM = "team:"
SUPPLY = "supply:"
IDLE = "idle:"
STRANDED = "stranded:"
LOST = "lost:"
ADJUSTMENT = "platform:adjustment"


def team_account(slug: str) -> str:
    """Of the team that pays."""
    return f"{TEAM}{slug}"


def lane_account(prefix: str, card: str, capacity_type: str) -> str:
    """One of SUPPLY, IDLE, STRANDED and LOST, of a card and capacity type."""
    return f"{prefix}{card}:{capacity_type}"
