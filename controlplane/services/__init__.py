"""The verbs: one keyword-only function each, an actor, one transaction, one audit entry."""
