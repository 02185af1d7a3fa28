"""One site at work: configuration, store and engine together, as Hub and service both use them."""
