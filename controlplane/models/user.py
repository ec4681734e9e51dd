"""People who log in."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser


class User(AbstractUser):
    """A person; what they may do in which team is a Membership, operators are superusers."""

    class Meta(AbstractUser.Meta):
        ordering = ["username"]

    @property
    def label(self) -> str:
        """How the audit names this person, also after the account is gone."""
        return self.get_full_name() or self.username
