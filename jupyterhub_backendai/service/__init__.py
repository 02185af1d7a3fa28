"""The service's door: REST API, events and the workers beside them, as a managed Hub service."""
