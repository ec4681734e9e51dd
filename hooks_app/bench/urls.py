"""The plane's addresses and one more: a view that does nothing, behind the same middleware."""

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from controlplane.urls import handler404, handler500
from controlplane.urls import urlpatterns as plane

__all__ = ["handler404", "handler500"]


@csrf_exempt
@transaction.non_atomic_requests
def empty(request: HttpRequest) -> HttpResponse:
    """Answer at once."""
    return JsonResponse({})


urlpatterns = [path("bench/empty", empty), *plane]
