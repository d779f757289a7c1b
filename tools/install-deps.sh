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
# Codecs that are compared with protobuf-c: each is left out of the build where its library is missing.
optional=()
pkg-config --exists msgpack-c 2>/dev/null || pkg-config --exists msgpack 2>/dev/null || optional+=(libmsgpack-dev)
pkg-config --exists flatbuffers 2>/dev/null || optional+=(libflatbuffers-dev)
command -v flatc >/dev/null || optional+=(flatbuffers-compiler)
command -v c++ >/dev/null || optional+=(g++)
[ $((${#missing[@]} + ${#optional[@]})) -eq 0 ] && exit 0

packages=("${missing[@]/#ninja/ninja-build}")
give_up() { # nothing can be installed here, which is an error when something is needed
  [ ${#packages[@]} -eq 0 ] || { echo "$1 ${packages[*]}" >&2; exit 1; }
  echo "left out, for they are not installed: ${optional[*]}" >&2
  exit 0
}
command -v apt-get >/dev/null || give_up "grpcperf needs these Debian packages, or your system's equivalents:"
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || give_up "as root, please: apt-get install"
  sudo=(sudo)
fi
install() {
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}
echo "installing ${packages[*]} ${optional[*]}" >&2
"${sudo[@]}" apt-get update -qq
[ ${#packages[@]} -eq 0 ] || install "${packages[@]}"
for package in "${optional[@]}"; do
  install "$package" || echo "left out, for it cannot be installed: $package" >&2
done
# Only nginx's program is wanted, not a web server on this machine.
if [[ " ${packages[*]} " == *" nginx "* ]] && [ -d /run/systemd/system ]; then
  "${sudo[@]}" systemctl disable --quiet --now nginx || true
fi
