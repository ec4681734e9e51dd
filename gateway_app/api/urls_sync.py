"""The address that agents ask all the time: among the first that are tried, because Django tries them in turn."""

from django.urls import path

from gateway_app.api import bundles

urlpatterns = [path("profiles/<str:name>/bundle", bundles.current_bundle)]
