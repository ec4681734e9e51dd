"""Stand-ins for the few Hermes modules that hooks import; on the path of a hook host, never of the plane."""
