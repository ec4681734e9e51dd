"""Importing a Hermes home: an archive is uploaded, and the page says what was taken, what was skipped and why."""

from __future__ import annotations

from django import forms
from django.conf import settings
from django.db import transaction

from controlplane.actor import Actor
from controlplane.errors import PlaneError
from controlplane.models import Profile
from hooks_app.admin.asking import PlainForm
from hooks_app.services import archives, imports


class HomeForm(PlainForm):
    """The archive of a home."""

    shown_as = {"files": "archive"}
    archive = forms.FileField(
        label="Archive",
        help_text="A tar or zip of ~/.hermes, with config.yaml at its top or one directory below. "
        "Hermes's own program and its sessions may stay out: "
        "tar -czf home.tgz --exclude=hermes-agent --exclude=sessions -C ~ .hermes",
    )

    def clean_archive(self) -> archives.Tree:
        """The files of the archive, as far as they can be read safely."""
        sent, limit = self.cleaned_data["archive"], settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        if sent.size > limit:
            raise forms.ValidationError(
                f"The archive is larger than {limit // 2**20} MiB: leave sessions and logs out."
            )
        try:
            return archives.read_archive(sent.read())
        except PlaneError as refusal:
            raise forms.ValidationError(refusal.message) from None


def take(form: HomeForm, profile: Profile, actor: Actor) -> imports.Report | None:
    """Import what was uploaded; None with what is wrong in the form."""
    if not form.is_valid():
        return None
    try:
        with transaction.atomic():
            return imports.run(profile=profile, actor=actor, tree=form.cleaned_data["archive"])
    except PlaneError as refusal:
        form.refuse(refusal)
        return None
