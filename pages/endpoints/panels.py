"""What the pages of endpoints show that takes more than one of the apps to know."""

from __future__ import annotations

from console.pages.lists import register_row_facts
from console.pages.panels import register_panel
from inference.specs import KIND
from pages.endpoints.access import access_panel
from pages.endpoints.analytics import analytics_panel
from pages.endpoints.overview import overview_panel
from pages.endpoints.rows import endpoint_rows
from pages.endpoints.usage import usage_panel


def register() -> None:
    """Called once, when all apps are loaded."""
    register_panel(KIND, "overview", overview_panel)
    register_panel(KIND, "analytics", analytics_panel)
    register_panel(KIND, "access", access_panel)
    register_panel(KIND, "cost", usage_panel)
    register_row_facts(KIND, endpoint_rows)
