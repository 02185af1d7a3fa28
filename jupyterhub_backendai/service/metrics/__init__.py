"""What Prometheus is told of the sessions."""
