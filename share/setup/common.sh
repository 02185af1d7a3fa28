# Names and small helpers that the scripts of this folder share. Sourced, not run.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
state=${DEMO_STATE:-$root/.run}       # what runs leave behind: logs, pids, the demo's data
venv=${VENV:-$root/.venv}
setup=$root/share/setup
mkdir -p "$state/logs"
umask 022

say() { printf '==> %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }
is_root() { [ "$(id -u)" = 0 ]; }
has() { command -v "$1" >/dev/null 2>&1; }
is_debian_like() { [ -r /etc/os-release ] && grep -qiE '^ID(_LIKE)?=.*(debian|ubuntu)' /etc/os-release && has apt-get; }
has_systemd() { [ -d /run/systemd/system ] && has systemctl; }
engine_answers() { has docker && timeout 20 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }
# A process that has ended may stay in the table for long, where nobody takes note of its end (as in a container without an init).
runs() { grep -qE '^State:[[:space:]]+[^ZX[:space:]]' "/proc/$1/status" 2>/dev/null; }
until_ended() { while runs "$1"; do sleep 0.1; done; }
