"""What running hooks, deciding, recording, asking and delivering cost, each against a reference of the same run."""
