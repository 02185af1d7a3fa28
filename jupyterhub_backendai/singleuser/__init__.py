"""What runs inside a session: the standard library and what a stock Jupyter image has, no more."""
