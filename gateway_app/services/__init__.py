"""The verbs of the gateway app."""
