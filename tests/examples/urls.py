"""The portal's addresses with those of the example, as its entry in `portal.urls.APPS` would mount them."""

from __future__ import annotations

from django.urls import include, path

from portal import urls as portal
from tests.examples.batch_inference import urls as example

urlpatterns = [
    path("api/v1/", include((example.api_urlpatterns, f"{example.app_name}-api"))),
    path("", include((example.urlpatterns, example.app_name))),
    *portal.urlpatterns,
]
handler400, handler403 = portal.handler400, portal.handler403
handler404, handler500 = portal.handler404, portal.handler500
