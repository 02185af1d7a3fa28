"""What a session's own Jupyter server can do more: apps, terminal, ssh. Runs in the container.

A Jupyter server extension. The Hub puts it into every session's container under another name; an
image may also have it installed. The first that is loaded serves, the second does nothing. Nothing
here keeps the server from starting: what cannot work is logged in one line, and left out.

The standard library and what a stock Jupyter image has, for any Python that JupyterHub 5 runs on.
"""


def _jupyter_server_extension_points():
    return [{"module": __name__}]


def _link_jupyter_server_extension(serverapp):
    """Before any extension is loaded: icons for a launcher, which another extension shows."""
    try:
        from .extension import link

        link(serverapp)
    except Exception as error:  # whatever it is: the user's server starts without us
        serverapp.log.warning("Backend.AI: the launcher's icons are left out: %s", error)


def _load_jupyter_server_extension(serverapp):
    try:
        from .extension import load

        load(serverapp)
    except Exception as error:  # whatever it is: the user's server starts without us
        serverapp.log.warning("Backend.AI: the session's apps are left out: %s", error)


load_jupyter_server_extension = _load_jupyter_server_extension  # its name of old
