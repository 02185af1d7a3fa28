"""Ways in which sessions are given GPUs; one module each."""
