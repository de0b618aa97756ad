"""The admin site: django-unfold's, with the portal's menu, and without what its content security policy would stop.

The policy below `/admin/` is that of all pages: no eval, nothing inline. `static/portal/admin.js` does the rest of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.apps import AdminConfig
from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import URLPattern, URLResolver, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from typing_extensions import override
from unfold import fields

# The package has no types; what it changes has Django's.
if TYPE_CHECKING:
    _AdminSite = admin.AdminSite
else:
    from unfold.sites import UnfoldAdminSite as _AdminSite

# What is registered, by what one wants to do.
MENU: Final[dict[str, tuple[str, ...]]] = {
    "People and teams": (
        "teams.User",
        "teams.Team",
        "teams.Membership",
        "teams.ApiToken",
        "gateway.EndpointToken",
    ),
    "Quotas and prices": (
        "quotas.Quota",
        "quotas.QuotaRequest",
        "quotas.QuotaChangeSet",
        "quotas.QuotaChange",
        "quotas.TeamPolicy",
        "quotas.Cohort",
        "quotas.CohortUsage",
        "costs.Price",
        "costs.Budget",
        "costs.BudgetOverride",
        "costs.LedgerEntry",
    ),
    "Workloads": (
        "workloads.Workload",
        "jobs.RunTemplate",
        "quotas.Claim",
        "quotas.Decision",
        "quotas.Preemption",
    ),
    "Platform": (
        "workloads.ResourceFlavor",
        "workloads.NodeRecord",
        "quotas.Pool",
        "teams.AuditEvent",
    ),
}


# Pages of the portal itself, which the console goes back to.
PAGES: Final[tuple[tuple[str, str], ...]] = (
    ("Home", "portal:home"),
    ("Quota console", "portal:quota-console"),
    ("Costs", "portal:costs"),
    ("Cluster", "portal:cluster"),
    ("Audit trail", "portal:audit"),
)


class PortalAdminConfig(AdminConfig):
    """Stands for `django.contrib.admin` among the installed applications."""

    default_site = "portal.admin_site.PortalAdminSite"

    @override
    def ready(self) -> None:
        """Unfold has no setting for how JSON is shown: by styles in the page, where pygments is installed."""
        super().ready()
        fields.prettify_json = _json_as_text


class PortalAdminSite(_AdminSite):
    """Unfold's site, with less of it."""

    @override
    def get_urls(self) -> list[URLPattern | URLResolver]:
        """All but Unfold's search: it keeps objects in the cache that JSON cannot say, and fails."""
        return [each for each in super().get_urls() if getattr(each, "name", "") != "search"]

    @override
    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """Without the colours, which Unfold writes into a style element: they stand in `static/portal/admin.css`."""
        return super().each_context(request) | {
            "colors": None,
            "styles": [static("portal/admin.css")],
            "scripts": [static("portal/admin.js")],
            "site_icon": static("portal/favicon.svg"),
            "site_subheader": "Admin console",
            "environment": _environment(),
            "site_favicons": [{"rel": "icon", "type": "image/svg+xml", "href": static("portal/favicon.svg")}],
        }


def _environment() -> tuple[str, str]:
    """Whose rows these are, and how loudly that is said: of several portals one looks like the other."""
    if settings.EMBEDDED_CLUSTER:
        return "Local demo", "warning"
    return urlsplit(settings.PUBLIC_URL).hostname or "", "info"


def _json_as_text(value: Any, encoder: type[json.JSONEncoder] | None) -> SafeString | None:
    if value is None:
        return None
    text = json.dumps(value, indent=2, ensure_ascii=False, cls=encoder)
    return format_html('<pre class="json">{}</pre>', text)


def menu(request: HttpRequest) -> list[dict[str, Any]]:
    """The portal's own pages, and the groups of `MENU`, as Unfold's sidebar takes them. It leaves out a group of which
    nothing may be seen.
    """
    del request
    pages = [{"title": title, "link": reverse(name), "active": False} for title, name in PAGES]
    registered = {model._meta.label: page for model, page in admin.site._registry.items()}  # noqa: SLF001
    groups = [
        {"title": title, "items": [_item(registered[label]) for label in labels]}
        for title, labels in MENU.items()
    ]
    return [{"title": "Portal", "items": pages}, *groups]


def _item(page: admin.ModelAdmin[Any]) -> dict[str, Any]:
    options = page.opts
    return {
        "title": capfirst(options.verbose_name_plural),
        "link": reverse(f"admin:{options.app_label}_{options.model_name}_changelist"),
        "permission": _seen_by(page),
    }


def _seen_by(page: admin.ModelAdmin[Any]) -> Callable[[HttpRequest], bool]:
    """Not the page's own method: Unfold copies its sidebar deeply, and the copy of a method is one of its page."""

    def seen_by(request: HttpRequest) -> bool:
        return page.has_view_permission(request)

    return seen_by
