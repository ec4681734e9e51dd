"""The private home of a profile's hooks, over REST."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from hooks_app.api.profile_hooks import ProfileView
from hooks_app.services import private_homes


class PrivateHome(ProfileView):
    """Where a profile's hooks keep files between runs."""

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Delete all that the profile's hooks have written (authors and owners)."""
        private_homes.empty(profile=self.get_object(), actor=self.actor)
        return Response(status=204)
