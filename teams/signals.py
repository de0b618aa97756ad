"""Signals to other apps about teams, inside the transaction of the change: an error in a receiver rolls it back."""

from __future__ import annotations

from django.dispatch import Signal

cohort_changed = Signal()
"""A team is now in another cohort: `team` has the new name, `left` is the old one ("" for none), `now`."""

team_closing = Signal()
"""`team` takes nothing new from now on, because `actor` closes it `now`: what waits for a decision is decided."""

team_closed = Signal()
"""Nothing of `team` runs, waits or holds a claim any more, `now`: what only serves a team at work is switched off."""

closing_asked = Signal()
"""What would closing `team` end `now`? Each receiver answers with how many of what it has, by name, and writes nothing."""

team_deleting = Signal()
"""`team`, which has no history, is about to be deleted. A receiver that has something of it left raises TeamInUse."""
