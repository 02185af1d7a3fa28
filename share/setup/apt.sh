#!/usr/bin/env bash
# Installs those of the named Debian packages that are missing; does nothing at all when none is.
#   apt.sh WHAT-FOR PACKAGE...
set -euo pipefail
. "$(dirname "$0")/common.sh"
reason=$1; shift

missing=()
for package in "$@"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0
is_root && is_debian_like || die "$reason: please install ${missing[*]} (as root on Debian or Ubuntu this is done for you)"
exec 8>"$state/apt.lock"   # several steps of the set-up run at a time, apt does not
flock 8
say "$reason: installing ${missing[*]}"

# Without systemd nothing should start a daemon behind our back; who needs one here starts it, and stops it again.
policy=/usr/sbin/policy-rc.d
if ! has_systemd && [ ! -e $policy ]; then
  printf '#!/bin/sh\nexit 101\n' >$policy; chmod 755 $policy
  trap 'rm -f $policy' EXIT
fi
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
apt=(apt-get -q -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3)
updated=$state/apt-updated
if [ -z "$(find "$updated" -mmin -60 2>/dev/null)" ]; then
  "$setup/quietly.sh" "package lists" "${apt[@]}" update
  touch "$updated"
fi
"$setup/quietly.sh" "packages for $reason" "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
