"""A Hermes of its own for every test, under a plane that the test controls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway_app.bench.hermes import hermes_python
from tests.hermes.building import Home
from tests.hermes.fake_model import FakeModel
from tests.hermes.fake_plane import FakePlane


@pytest.fixture(scope="session")
def python_with_hermes() -> str:
    """The interpreter that has Hermes."""
    return hermes_python()


@pytest.fixture
def home(tmp_path: Path, python_with_hermes: str) -> Home:
    """A home with the plugin, not enrolled."""
    home = Home(tmp_path / ".hermes", python_with_hermes)
    home.prepare()
    return home


@pytest.fixture
def plane() -> Iterator[FakePlane]:
    """A plane that listens."""
    plane = FakePlane()
    plane.start()
    yield plane
    plane.stop()


@pytest.fixture
def enrolled(home: Home, plane: FakePlane) -> Home:
    """A home that was enrolled with the real command, before anything was published."""
    done = home.hermes("caduceus", "enroll", plane.url, plane.token)
    assert done.returncode == 0, done.stdout + done.stderr
    return home


@pytest.fixture
def model(enrolled: Home) -> Iterator[FakeModel]:
    """A scripted model, to which the enrolled home leads."""
    model = FakeModel()
    model.start()
    enrolled.prepare_config(model.config())
    yield model
    model.stop()
