"""The verbs of the hooks app."""
