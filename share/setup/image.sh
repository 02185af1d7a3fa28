#!/usr/bin/env bash
# Builds an image, unless the engine has one made from the same files already.
#   image.sh demo|plain|hub     the image of sessions (share/images/demo), the same with next to nothing in it, or the one of
#                               examples/compose
set -euo pipefail
. "$(dirname "$0")/common.sh"
label=backendai.content

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
target=()
case $1 in
  demo|plain)
    name=backendai-$1:latest; dockerfile=Dockerfile; target=(--target "$1")
    cp "$root"/share/images/demo/* "$context" ;;
  hub)
    name=backendai-hub:latest; dockerfile=examples/compose/Dockerfile
    mapfile -t paths < <(sed -n 's/^!//p' "$root/.dockerignore"; echo $dockerfile)
    for path in "${paths[@]}"; do
      [ ! -e "$root/$path" ] || tar -C "$root" --exclude __pycache__ -c "$path" | tar -C "$context" -x
    done ;;
  *) die "image.sh demo|plain|hub" ;;
esac

content=$(cd "$context" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1)
if [ "$(docker image inspect --format "{{index .Config.Labels \"$label\"}}" "$name" 2>/dev/null || true)" = "$content" ]; then exit 0; fi

certificates=${PIP_CERT:-${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}}
if [ -r "$certificates" ]; then cp "$certificates" "$context/ca-bundle.crt"; fi
base=$("$setup/base-image.sh")
arguments=()
for variable in PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST PIP_DEFAULT_TIMEOUT \
                http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
  if [ -n "${!variable:-}" ]; then arguments+=(--build-arg "$variable"); fi
done
"$setup/quietly.sh" "image $name" docker build --network host --file "$context/$dockerfile" --build-arg "BASE=$base" \
  "${target[@]}" "${arguments[@]}" --label "$label=$content" --tag "$name" "$context"
