#!/usr/bin/env bash
# The programs that only the tests use: a registry of images, a browser with fonts and what its driver's Node needs, SSH's client, tmux, PostgreSQL (its server is
# started by the tests themselves), Prometheus (likewise), and a C compiler for the library that stands in for NVIDIA's.
set -euo pipefail
. "$(dirname "$0")/common.sh"
"$setup/apt.sh" "the tests" chromium fonts-dejavu-core fonts-liberation postgresql libatomic1 gcc libc6-dev openssh-client tmux prometheus docker-registry
