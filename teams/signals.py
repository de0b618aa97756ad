"""Signals to other apps about teams, inside the transaction of the change: an error in a receiver rolls it back."""

from __future__ import annotations

from django.dispatch import Signal

cohort_changed = Signal()
"""A team is now in another cohort: `team` has the new name, `left` is the old one ("" for none), `now`."""
