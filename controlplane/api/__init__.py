"""The REST API: thin views that read a request, call a service and render its result."""
