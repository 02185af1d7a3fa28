"""What the service does so that sessions which nobody uses are ended."""
