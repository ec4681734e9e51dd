"""The OpenAPI schema is committed, complete and current."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from django.core.management import call_command
from django.test import Client

SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "openapi.yaml"


def test_the_committed_schema_is_current() -> None:
    out = StringIO()
    call_command("spectacular", validate=True, fail_on_warn=True, stdout=out)
    assert out.getvalue() == SCHEMA.read_text(), (
        "run: python3 manage.py spectacular --skip-checks --file docs/openapi.yaml"
    )


def test_the_browser_is_served_locally(db: None) -> None:
    response = Client().get("/api/v1/docs/")
    assert response.status_code == 200
    assert b"http://" not in response.content.replace(b"http://testserver", b"")
    assert b"https://" not in response.content
