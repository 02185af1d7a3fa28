#!/usr/bin/env bash
# Runs a command in a network of its own, with nothing in it but the loopback, where one can be made (root, Linux).
# Chromium drops what it loads whenever the machine's network changes, as it does with each container that comes or goes.
#   own-network.sh COMMAND...
set -euo pipefail
own=(unshare --net -- bash -c 'ip link set lo up && exec "$@"' own-network)
if "${own[@]}" true 2>/dev/null; then exec "${own[@]}" "$@"; fi
exec "$@"
