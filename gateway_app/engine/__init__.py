"""Plain Python, no Django: how the gateway decides."""
