"""The webhook bench's reference: the django-webhook package, set up as its documentation says, in its own processes."""
