#!/usr/bin/env bash
# Runs a command with its output in a log file: one line when it begins, one when it ends, the log's tail when it fails.
#   quietly.sh NAME COMMAND...
set -euo pipefail
. "$(dirname "$0")/common.sh"
name=$1; shift
log=$state/logs/${name//[^A-Za-z0-9]/-}.log
say "$name …"
start=$SECONDS
if "$@" >"$log" 2>&1 </dev/null; then
  say "$name: done in $((SECONDS - start)) s"
else
  status=$?
  tail -n 40 "$log" >&2
  say "$name: FAILED after $((SECONDS - start)) s, all of its output is in $log"
  exit $status
fi
