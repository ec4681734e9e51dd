"""Measured figures: each is a ratio against a reference, taken in the same run on the same machine."""
