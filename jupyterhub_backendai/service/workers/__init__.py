"""What the service does beside answering: one module a worker, run by `runner`."""
