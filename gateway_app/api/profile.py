"""What all views below one profile share."""

from __future__ import annotations

from controlplane.api.base import TeamView
from controlplane.errors import Invalid, NotFound
from controlplane.models import Profile


class ProfileView(TeamView):
    """A view of one profile; a token that is bound to a profile finds no other."""

    def get_object(self) -> Profile:
        rows = Profile.objects.for_team(self.team).filter(name=self.kwargs["name"], archived_at=None)
        if self.actor.profile_id:
            rows = rows.filter(pk=self.actor.profile_id)
        profile = rows.select_related("team").first()
        if profile is None:
            raise NotFound(f"The team has no profile called {self.kwargs['name']}.")
        return profile


def seconds_of(text: str, most: int) -> int:
    """How long a client wants to wait."""
    if not text.isascii() or not text.isdigit() or len(text) > 3 or int(text) > most:
        raise Invalid(f"Use a whole number of seconds from 0 to {most}.", field="wait")
    return int(text)
