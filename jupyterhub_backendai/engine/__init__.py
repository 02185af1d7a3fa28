"""What runs containers: one module an engine, each declaring what it can do."""
