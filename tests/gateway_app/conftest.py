"""The real Hermes, where a test asks for it."""

from __future__ import annotations

import pytest

from tests.gateway_app.hermes import Hermes
from tests.hermes.building import hermes_python


@pytest.fixture(scope="session")
def hermes() -> Hermes:
    """Hermes 0.19.0 in a virtualenv of its own, built once."""
    return Hermes(hermes_python())
