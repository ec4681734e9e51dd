"""Run hooks: a script in a sandbox of its own, Python hooks in the profile's warm host."""
