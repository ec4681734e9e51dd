"""What the hooks app adds to the database itself."""
