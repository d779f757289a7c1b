#!/usr/bin/env bash
# Install the load generators that `make bench` compares grpcperf with, into build/bench-tools and without root where
# that is possible. What cannot be had is named, here and by the bench, and is no failure.
# Usage: bench-deps.sh PYTHON
set -uo pipefail
python=${1:-python3}
tools=$PWD/build/bench-tools
mkdir -p "$tools/bin"
missing=()

# As modules of a fixed version; @latest of ghz gives an old one.
go_tool() { # NAME PACKAGE@VERSION
  [ -x "$tools/bin/$1" ] && return
  echo "installing $1: $2" >&2
  command -v go >/dev/null && GOBIN=$tools/bin go install "$2" || missing+=("$1 (go install $2)")
}
go_tool ghz github.com/bojand/ghz/cmd/ghz@v0.121.0
go_tool fortio fortio.org/fortio@v1.68.0

if ! command -v h2load >/dev/null; then
  sudo=()
  [ "$(id -u)" -eq 0 ] || sudo=(sudo -n)
  echo "installing h2load: nghttp2-client" >&2
  { "${sudo[@]}" apt-get update -qq && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends nghttp2-client >/dev/null; } ||
    missing+=("h2load (as root: apt-get install nghttp2-client)")
fi

# In an environment of its own: grpcperf itself does without grpcio.
if [ ! -x "$tools/venv/bin/python" ] || ! "$tools/venv/bin/python" -c 'import grpc' 2>/dev/null; then
  echo "installing grpcio" >&2
  { "$python" -m venv "$tools/venv" && "$tools/venv/bin/python" -m pip install -q grpcio; } ||
    missing+=("grpcio (pip install grpcio, in $tools/venv)")
fi

for tool in "${missing[@]}"; do
  echo "missing: $tool" >&2
done
exit 0
