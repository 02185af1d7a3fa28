#!/usr/bin/env bash
# Runs a command while a Docker engine answers. One that answers already is used and left alone; otherwise one is
# installed and started where that is possible (root, Debian or Ubuntu), and the last who uses it stops it again.
#   with-engine.sh COMMAND...
set -euo pipefail
. "$(dirname "$0")/common.sh"

# Who uses the engine holds a shared lock on this file, so whoever gets it alone is the last. A lock ends with its process.
exec 9>"$state/engine.lock"
flock --shared 9
leave() {
  trap '' INT TERM HUP
  flock --unlock 9
  if flock --exclusive --nonblock 9; then "$setup/engine.sh" stop 9>&-; fi
}
trap leave EXIT
flock --close "$state/engine.starting" "$setup/engine.sh" start 9>&-

# The command gets its own process group, and every signal that should end it arrives there as an interrupt,
# so that it can tidy up while the engine still runs. (Interrupts are ignored here when a script started this in the background.)
set -m
env --default-signal=INT,TERM,HUP "$@" 9>&- &
child=$!
set +m
trap 'kill -INT -- -$child 2>/dev/null || true' INT TERM HUP
status=0
wait "$child" || status=$?
while kill -0 "$child" 2>/dev/null; do status=0; wait "$child" || status=$?; done
exit $status
