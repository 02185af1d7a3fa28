#!/usr/bin/env bash
# Prints the name of an image to build on: Debian's from a registry where one answers, else one made here with debootstrap.
set -euo pipefail
. "$(dirname "$0")/common.sh"
pulled=debian:bookworm-slim
made=backendai-base:bookworm

exists() { docker image inspect "$1" >/dev/null 2>&1; }

make_base() {
  local tree; tree=$(mktemp -d "${TMPDIR:-/var/tmp}/base.XXXXXX")
  trap "rm -rf '$tree'" EXIT
  "$setup/apt.sh" "the base image" debootstrap
  has debootstrap || die "no image registry answers, and there is no debootstrap to make a base image with"
  is_root || die "no image registry answers; a base image can be made here instead, but only by root"
  "$setup/quietly.sh" "debian base" debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv bookworm "$tree" ${DEBIAN_MIRROR:-}
  if grep -q '^VERSION_CODENAME=bookworm' /etc/os-release; then use_this_machines_sources "$tree"; fi
  rm -rf "$tree"/var/cache/apt/*.bin "$tree"/var/cache/apt/archives/*.deb "$tree"/var/lib/apt/lists/* "$tree"/dev/*
  tar -C "$tree" --numeric-owner -c . | docker import --change 'CMD ["bash"]' - "$made" >/dev/null
}

# Security updates come from where this machine gets them, and by the same way.
use_this_machines_sources() {
  local tree=$1
  rm -f "$tree/etc/apt/sources.list"
  cp /etc/apt/sources.list "$tree/etc/apt/" 2>/dev/null || true
  cp /etc/apt/sources.list.d/debian.sources "$tree/etc/apt/sources.list.d/" 2>/dev/null || true
  apt-config dump | grep -E '^Acquire::([a-z]+::(Proxy|Verify-Peer)|Check-)' >"$tree/etc/apt/apt.conf.d/90machine" || true
  [ -s "$tree/etc/apt/sources.list" ] || [ -s "$tree/etc/apt/sources.list.d/debian.sources" ] || die "this machine has no apt sources to copy"
}

if exists "$pulled"; then echo "$pulled"
elif exists "$made"; then echo "$made"
elif timeout 15 docker manifest inspect "$pulled" >/dev/null 2>&1 && "$setup/quietly.sh" "pulling $pulled" docker pull "$pulled"; then echo "$pulled"
else make_base >&2; echo "$made"
fi
