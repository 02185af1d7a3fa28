#!/usr/bin/env bash
# Makes the virtual environment and installs this package into it (editable) with the named extras, when pyproject.toml
# has changed since the last time or extras are wanted that it does not have yet.
#   venv.sh [EXTRA...]
set -euo pipefail
. "$(dirname "$0")/common.sh"
python=${PYTHON:-python3}

made=$venv/.made-with
wanted="$(sha256sum <"$root/pyproject.toml") $*"
if [ -x "$venv/bin/python" ] && [ -e "$made" ]; then
  # what was made with more extras serves for fewer
  if [ "$(cut -d' ' -f1 "$made")" = "${wanted%% *}" ]; then
    lacking=0
    for extra in "$@"; do grep -qw -- "$extra" "$made" || lacking=1; done
    [ $lacking = 1 ] || exit 0
  fi
fi

has "$python" || die "no $python here: install Python 3.10 or newer"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || die "$("$python" -V) is too old: Python 3.10 or newer is needed"
if [ ! -x "$venv/bin/pip" ]; then
  "$python" -c 'import ensurepip, venv' 2>/dev/null || "$setup/apt.sh" "the virtual environment" python3-venv
  "$python" -m venv "$venv"
fi
extras=$(IFS=,; echo "$*")
"$setup/quietly.sh" "python packages" "$venv/bin/pip" install --disable-pip-version-check -e "$root${extras:+[$extras]}"
echo "$wanted" >"$made"
