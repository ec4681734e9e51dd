"""Webhook endpoints and deliveries under /api/v1/."""

from django.urls import path

from hooks_app.api import deliveries, endpoints

urlpatterns = [
    path("endpoints", endpoints.Endpoints.as_view()),
    path("endpoints/<str:hook>", endpoints.OneEndpoint.as_view()),
    path("endpoints/<str:hook>/rotate", endpoints.RotateSecret.as_view()),
    path("endpoints/<str:hook>/enable", endpoints.EnableEndpoint.as_view()),
    path("endpoints/<str:hook>/disable", endpoints.DisableEndpoint.as_view()),
    path("deliveries", deliveries.Deliveries.as_view()),
    path("deliveries/replay", deliveries.ReplayWindow.as_view()),
    path("deliveries/<uuid:id>", deliveries.OneDelivery.as_view()),
    path("deliveries/<uuid:id>/replay", deliveries.ReplayDelivery.as_view()),
]
