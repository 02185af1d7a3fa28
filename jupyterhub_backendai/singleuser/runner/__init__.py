"""Runs a batch session's command beside its Jupyter server; `__main__` says how."""
