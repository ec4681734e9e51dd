"""What keeping a fleet in step costs."""
