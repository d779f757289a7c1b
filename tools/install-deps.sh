#!/usr/bin/env bash
# Install the system packages grpcperf is built from, where they are missing. Quiet when nothing is.
# Usage: install-deps.sh PYTHON
set -euo pipefail
python=${1:-python3}

missing=()
for tool in gcc pkg-config ninja; do
  command -v "$tool" >/dev/null || missing+=("$tool")
done
command -v protoc-c >/dev/null || missing+=(protobuf-c-compiler)
for library in grpc:libgrpc-dev libprotobuf-c:libprotobuf-c-dev libnghttp2:libnghttp2-dev openssl:libssl-dev zlib:zlib1g-dev; do
  pkg-config --exists "${library%%:*}" 2>/dev/null || missing+=("${library##*:}")
done
# Servers that are not ours, for the tests: in /usr/sbin, which is not on every PATH.
for tool in nghttpd:nghttp2-server nginx:nginx; do
  PATH="$PATH:/usr/sbin" command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
done
# A browser, for the tests of pages.
command -v chromium >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium)
"$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
"$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))' \
  2>/dev/null || missing+=(python3-dev)
[ ${#missing[@]} -eq 0 ] && exit 0

packages=("${missing[@]/#ninja/ninja-build}")
if ! command -v apt-get >/dev/null; then
  echo "grpcperf needs these Debian packages, or your system's equivalents: ${packages[*]}" >&2
  exit 1
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "as root, please: apt-get install ${packages[*]}" >&2; exit 1; }
  sudo=(sudo)
fi
echo "installing ${packages[*]}" >&2
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
# Only nginx's program is wanted, not a web server on this machine.
if [[ " ${packages[*]} " == *" nginx "* ]] && [ -d /run/systemd/system ]; then
  "${sudo[@]}" systemctl disable --quiet --now nginx || true
fi
