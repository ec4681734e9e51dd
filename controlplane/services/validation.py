"""The model's own validators, as an error that names the field."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db.models import Model

from controlplane.errors import Invalid


def check_fields(row: Model) -> None:
    """Refuse a row whose values its field validators refuse."""
    try:
        row.clean_fields()
    except ValidationError as error:
        field, messages = next(iter(error.message_dict.items()))
        raise Invalid(messages[0], field=field) from None
