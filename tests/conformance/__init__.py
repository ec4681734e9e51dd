"""Compares the engine with what Hermes 0.19.0 was observed to do: `python3 -m tests.conformance FILE…`."""
