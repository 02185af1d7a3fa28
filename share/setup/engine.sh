#!/usr/bin/env bash
# Makes a Docker engine answer, or says in one line why it cannot. `stop` ends what `start` started, and nothing else.
#   engine.sh start|stop
set -euo pipefail
. "$(dirname "$0")/common.sh"
mark=$state/engine      # exists while an engine runs that we started; holds its pid, or the word systemd

start() {
  if engine_answers; then return; fi
  is_root || die "no Docker engine answers for user $(id -un): start Docker, and add the user to the group docker"
  [ -z "${DOCKER_HOST:-}" ] || die "no Docker engine answers at DOCKER_HOST=$DOCKER_HOST"
  if ! has dockerd; then
    is_debian_like || die "no Docker engine here: install Docker and start it"
    say "no Docker engine here: installing Debian's docker.io and starting its daemon"
    packages=(docker.io iptables)
    has_systemd || packages+=(cgroupfs-mount)
    "$setup/apt.sh" "the Docker engine" "${packages[@]}"
  fi
  if engine_answers; then return; fi
  if has_systemd; then start_service; else start_daemon; fi
}

start_service() {
  say "starting the Docker service"
  systemctl start docker || die "the Docker service does not start: see journalctl -u docker"
  echo systemd >"$mark"
  engine_answers || die "the Docker service runs but does not answer: see journalctl -u docker"
}

start_daemon() {
  if [ ! -e /sys/fs/cgroup/cgroup.controllers ] && [ ! -d /sys/fs/cgroup/memory ]; then
    has cgroupfs-mount && cgroupfs-mount || die "no cgroups below /sys/fs/cgroup: Docker cannot run here"
  fi
  say "starting the Docker daemon (log: $state/logs/dockerd.log)"
  setsid python3 "$setup/own-root.py" dockerd >"$state/logs/dockerd.log" 2>&1 </dev/null &
  local pid=$!
  echo "$pid" >"$mark"
  for _ in $(seq 120); do
    if engine_answers; then return; fi
    runs "$pid" || break
    sleep 0.5
  done
  tail -n 20 "$state/logs/dockerd.log" >&2
  stop
  die "the Docker daemon does not come up: see the lines above"
}

stop() {
  [ -e "$mark" ] || return 0
  local owner; owner=$(cat "$mark"); rm -f "$mark"
  if [ "$owner" = systemd ]; then
    say "stopping the Docker service"
    systemctl stop docker.socket docker
  elif [ "$(cat "/proc/$owner/comm" 2>/dev/null)" = dockerd ]; then
    say "stopping the Docker daemon"
    kill -TERM "$owner"
    until_ended "$owner"
  fi
}

"$1"
