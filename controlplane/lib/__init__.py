"""Leaves that everything stands on: no models, no knowledge of teams, hooks or gateways."""
