"""What the hook pages' templates can say."""
