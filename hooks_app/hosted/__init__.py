"""What runs inside the sandbox: the hook host's child, its `ctx`, and small stand-ins for Hermes's own modules."""
