"""The hooks app over REST."""
