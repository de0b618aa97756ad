"""Mounts what every app exports: `urlpatterns` (pages) and `api_urlpatterns` (REST, under /api/v1/)."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from foundation.http.problems import api_not_found
from pages import urls as web

APPS = (
    "foundation",
    "teams",
    "workloads",
    "quotas",
    "costs",
    "budgets",
    "advisor",
    "telemetry",
    "console",
    "jobs",
    "inference",
    "gateway",
    "notices",
)


def _modules() -> list[ModuleType]:
    return [import_module(f"{app}.urls") for app in APPS if find_spec(f"{app}.urls")]


def _pages(module: ModuleType) -> list[URLPattern | URLResolver]:
    patterns = getattr(module, "urlpatterns", [])
    return [path("", include((patterns, module.app_name)))] if patterns else []


def _api(module: ModuleType) -> list[URLPattern | URLResolver]:
    """REST names live in `<app>-api`, such as reverse("jobs-api:training-run-list")."""
    patterns = getattr(module, "api_urlpatterns", [])
    return [path("", include((patterns, f"{module.app_name}-api")))] if patterns else []


api_urlpatterns: list[URLPattern | URLResolver] = [
    path("schema/", SpectacularAPIView.as_view(), name="schema"),
    path("docs/", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="docs"),
    *(pattern for module in _modules() for pattern in _api(module)),
    re_path(r"", api_not_found),
]

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", include(api_urlpatterns)),
    path("admin/", admin.site.urls),
    *_pages(web),
    *(pattern for module in _modules() for pattern in _pages(module)),
]

handler400 = "pages.error_pages.bad_request"
handler403 = "pages.error_pages.permission_denied"
handler404 = "pages.error_pages.page_not_found"
handler500 = "pages.error_pages.server_error"
