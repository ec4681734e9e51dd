"""What the database itself knows and refuses about bundles and agents."""
