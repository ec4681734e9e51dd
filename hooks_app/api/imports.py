"""Importing and exporting Hermes homes, over REST."""

from __future__ import annotations

import io
import tarfile

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import TeamView
from controlplane.errors import Invalid, NotFound
from controlplane.models import Profile
from hooks_app.api.profile_hooks import ProfileView
from hooks_app.api.uploads import ARCHIVES
from hooks_app.services import archives, imports, renderings


class Imports(TeamView):
    """Taking over a Hermes home."""

    parser_classes = ARCHIVES

    @extend_schema(
        parameters=[OpenApiParameter("profile", str, required=True)],
        request={"application/octet-stream": bytes},
        responses={200: dict},
    )
    def post(self, request: Request) -> Response:
        """Import the archive of a Hermes home into a profile: drafts to review, variables as secrets, a report."""
        name = request.query_params.get("profile")
        if not name:
            raise Invalid("Name the profile that takes over the home.", field="profile")
        profile = Profile.objects.for_team(self.team).filter(name=name, archived_at=None).first()
        if profile is None:
            raise NotFound(f"The team has no profile called {name}.", field="profile")
        tree = archives.read_archive(request.data)
        return Response(imports.run(profile=profile, actor=self.actor, tree=tree).as_dict())


class Export(ProfileView):
    """A profile as a Hermes home."""

    @extend_schema(responses={(200, "application/gzip"): bytes})
    def get(self, request: Request, name: str) -> HttpResponse:
        """Download the profile's active hooks as the files of a Hermes home."""
        rendering = renderings.render(self.get_object())
        response = HttpResponse(pack(rendering), content_type="application/gzip")
        response["Content-Disposition"] = f'attachment; filename="hermes-{name}.tar.gz"'
        return response


def pack(rendering: renderings.Rendering) -> bytes:
    """The rendering as a compressed tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for file in rendering.files:
            entry = tarfile.TarInfo(file.path)
            entry.size, entry.mode = len(file.content), 0o755 if file.executable else 0o644
            archive.addfile(entry, io.BytesIO(file.content))
    return buffer.getvalue()
