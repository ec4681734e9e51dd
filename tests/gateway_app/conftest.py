"""The real Hermes, where a test asks for it."""

from __future__ import annotations

import pytest

from gateway_app.bench.hermes import hermes_python
from tests.gateway_app.hermes import Hermes


@pytest.fixture(scope="session")
def hermes() -> Hermes:
    """Hermes 0.19.0 in a virtualenv of its own, built once."""
    return Hermes(hermes_python())
