"""Django's PostgreSQL backend, taught to carry the current scope into every transaction."""
