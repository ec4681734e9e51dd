"""The fleet, over REST."""
