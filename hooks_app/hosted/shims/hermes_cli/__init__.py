"""Stand-in for Hermes's command line package."""
