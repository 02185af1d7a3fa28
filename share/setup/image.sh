#!/usr/bin/env bash
# Builds the image of share/images/demo, unless the engine has one made from the same files already.
set -euo pipefail
. "$(dirname "$0")/common.sh"
name=backendai-demo:latest
label=backendai-demo.content
files=$root/share/images/demo

content=$(cd "$files" && cat Dockerfile requirements.txt | sha256sum | cut -d' ' -f1)
if [ "$(docker image inspect --format "{{index .Config.Labels \"$label\"}}" "$name" 2>/dev/null || true)" = "$content" ]; then exit 0; fi

base=$("$setup/base-image.sh")
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp "$files/Dockerfile" "$files/requirements.txt" "$context"
certificates=${PIP_CERT:-${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}}
if [ -r "$certificates" ]; then cp "$certificates" "$context/ca-bundle.crt"; fi

arguments=()
for variable in PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST PIP_DEFAULT_TIMEOUT \
                http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
  if [ -n "${!variable:-}" ]; then arguments+=(--build-arg "$variable"); fi
done
"$setup/quietly.sh" "image $name" docker build --network host --build-arg "BASE=$base" "${arguments[@]}" \
  --label "$label=$content" --tag "$name" "$context"
