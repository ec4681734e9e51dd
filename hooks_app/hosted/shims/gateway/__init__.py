"""Stand-in for Hermes's gateway package."""
