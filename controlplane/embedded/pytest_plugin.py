"""The pytest plugin that gives a test run its own services; loaded early, before settings are read.

`manage.py test` loads it. Tests that need nothing start nothing: the services come up before the first fixture that
needs them is set up.
"""

from __future__ import annotations

import os

import pytest

from controlplane.embedded.throwaway import Throwaway, remove_abandoned

NEED_SERVICES = {"django_db_setup", "services"}

remove_abandoned()
throwaway = Throwaway()
throwaway.export(os.environ)


@pytest.fixture(scope="session")
def services() -> Throwaway:
    """PostgreSQL and Valkey, ready."""
    return throwaway


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> None:
    """Start the services before a fixture that needs them."""
    if fixturedef.argname in NEED_SERVICES:
        throwaway.start()


def pytest_unconfigure() -> None:
    """Leave nothing behind."""
    throwaway.stop()
