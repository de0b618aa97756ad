"""What apps above may want to hear of."""

from __future__ import annotations

from django.dispatch import Signal

settings_changed = Signal()
"""After a change of the platform's settings was committed; `names` are those that differ."""
