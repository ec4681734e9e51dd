"""Every address of the plane."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from gateway_app.api import bundles
from gateway_app.api.plugin import install_script
from hooks_app.api import decisions, events

urlpatterns = [
    # What agents call all the time comes first, without the cost of looking into parts.
    path("api/v1/decisions", decisions.entry),
    path("api/v1/events", events.entry),
    path("api/v1/profiles/<str:name>/bundle", bundles.current_bundle),
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
    path("install.sh", install_script),
    path(
        "api/v1/",
        include(
            [
                path("", include("hooks_app.api.urls_decisions")),
                path("", include("controlplane.api.urls")),
                path("", include("hooks_app.api.urls")),
                path("", include("gateway_app.api.urls")),
                path("", include("hooks_app.api.urls_webhooks")),
                path("schema", SpectacularAPIView.as_view(), name="schema"),
                path("docs/", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="docs"),
            ]
        ),
    ),
]
handler400 = "controlplane.api.errors.bad_request"
handler404 = "controlplane.api.errors.not_found"
handler500 = "controlplane.api.errors.server_error"
