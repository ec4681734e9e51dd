"""Everything one machine needs to run the plane by itself: virtualenv, PostgreSQL, Valkey and a supervisor.

Nothing in here reads Django's settings: it prepares the environment that settings are read from.
"""
