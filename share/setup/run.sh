#!/usr/bin/env bash
# Runs the demo Hub until it is interrupted, then removes the containers and homes of the sessions that it made.
# Expects what `make run` sets up: a Docker engine, the image, the virtual environment, the proxy.
set -euo pipefail
. "$(dirname "$0")/common.sh"
export PATH=$venv/bin:$PATH
config=${DEMO_CONFIG:-$root/examples/demo/jupyterhub_config.py}
url=http://127.0.0.1:8000

# Made on the first run: the password of all demo users, the admin's, and a name by which this Hub knows its containers.
keep() { [ -s "$state/$1" ] || (umask 077; echo "$2" >"$state/$1"); cat "$state/$1"; }
random() { python -c "import secrets; print(secrets.$1)"; }
password=$(keep password "$(random 'token_urlsafe(9)')")
admin_password=$(keep admin-password "$(random 'token_urlsafe(27)')")
BACKENDAI_HUB_ID=$(keep hub-id "demo$(random 'token_hex(4)')"); export BACKENDAI_HUB_ID
mkdir -p "$state/folders"

# A Hub that dies leaves its proxy behind, with its pid in this file.
end_proxy() {
  local pid; pid=$(head -n 1 "$state/jupyterhub-proxy.pid" 2>/dev/null) || return 0
  if [ "$(readlink "/proc/$pid/cwd")" = "$(readlink -f "$state")" ] && grep -q configurable-http-proxy "/proc/$pid/cmdline" 2>/dev/null; then
    kill -TERM "$pid"
    until_ended "$pid"
  fi
  rm -f "$state/jupyterhub-proxy.pid"
}
end_proxy

taken=$(python - 8000 8001 8081 <<'PYTHON'
import socket, sys
for port in map(int, sys.argv[1:]):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try: s.bind(("", port))
        except OSError: print(port)
PYTHON
)
[ -z "$taken" ] || die "something else listens on port ${taken//$'\n'/, }, which proxy and Hub need: end it first"

finish() {
  trap '' INT TERM HUP
  if [ -n "${hub:-}" ] && runs "$hub"; then
    say "stopping the Hub and its sessions"
    kill -TERM "$hub"
    until_ended "$hub"
  fi
  end_proxy
  docker ps -aq --filter "label=backendai.hub=$BACKENDAI_HUB_ID" | xargs -r docker rm -f >/dev/null || true
  docker volume ls -q --filter "label=backendai.hub=$BACKENDAI_HUB_ID" | xargs -r docker volume rm >/dev/null || true
}
trap finish EXIT
trap 'exit 0' INT TERM HUP

# In its own session: a Ctrl-C reaches this script alone, which ends the Hub in good order.
cd "$state"
setsid jupyterhub --config "$config" </dev/null &
hub=$!

until python -c "import sys, urllib.request; urllib.request.urlopen('$url/hub/health', timeout=2)" 2>/dev/null; do
  runs "$hub" || { hub=; die "the Hub ended: its last lines are above"; }
  sleep 0.5
done
cat >&2 <<TEXT

    The demo Hub is ready:   $url
    Sign in as               alice or bob, with the password $password
    or as                    admin, with the password $admin_password
    These are kept in        $state/password and $state/admin-password
    Ctrl-C ends it.

TEXT
wait "$hub" || die "the Hub ended with status $?: its last lines are above"
