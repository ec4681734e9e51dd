"""The form that every page's form extends."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms

from controlplane.errors import PlaneError
from controlplane.models import Team


class PlaneForm(forms.ModelForm):
    """A form that knows the team it is for and shows a service's refusal beside the field that it names."""

    team: ClassVar[Team | None] = None
    refusal: ClassVar[PlaneError | None] = None
    shown_as: ClassVar[dict[str, str]] = {}  # a service's field → this form's, where they differ

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""

    def clean(self) -> dict[str, Any] | None:
        values = super().clean()
        if self.refusal is not None:
            named = self.shown_as.get(self.refusal.field or "", self.refusal.field)
            self.add_error(named if named in self.fields else None, self.refusal.message)
        return values

    def validate_constraints(self) -> None:
        """The service answers for uniqueness, with a sentence that names the clash."""

    validate_unique = validate_constraints
