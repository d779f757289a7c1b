#!/usr/bin/env bash
# Build the fuzz targets with clang and run each for a while, from its kept corpus. Installs clang where it is missing.
# New inputs go to build/fuzz/found/UNIT; a crash stops the run, and its input then becomes a test.
# Usage: fuzz.sh SECONDS      (of the connection; the smaller units get a third each)
set -euo pipefail
seconds=${1:-60}

fuzzes() { # whether a compiler is there with libFuzzer and the sanitizers
  command -v "$1" >/dev/null &&
    echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, long n) { return 0; }' |
    "$1" -x c - -fsanitize=fuzzer,address -o /dev/null 2>/dev/null
}
find_clang() {
  for clang in clang clang-14 clang-16 clang-18 clang-19; do
    if fuzzes "$clang"; then echo "$clang"; return; fi
  done
}
clang=$(find_clang)
if [ -z "$clang" ]; then
  sudo=(); [ "$(id -u)" -eq 0 ] || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq
  for version in 14 18 19; do
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      "clang-$version" "libclang-rt-$version-dev" >/dev/null 2>&1 && break
  done
  clang=$(find_clang)
  [ -n "$clang" ] || { echo "make fuzz needs clang with libFuzzer: install clang and libclang-rt-dev" >&2; exit 1; }
fi

build=build/fuzz
[ -f $build/build.ninja ] ||
  CC=$clang meson setup $build -Dpython=false -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false >/dev/null
targets=$(cd tests/fuzz && ls fuzz_*.c | sed 's/fuzz_\(.*\)\.c/\1/')
for unit in $targets; do
  ninja -C $build "tests/fuzz/fuzz_$unit" >/dev/null
  found=$build/found/$unit
  mkdir -p "$found"
  [ "$unit" = connection ] && time=$seconds || time=$((seconds / 3 + 1))
  options=(-max_total_time="$time" -print_final_stats=1 -verbosity=0 -artifact_prefix="$found/")
  [ -f "tests/fuzz/$unit.dict" ] && options+=(-dict="tests/fuzz/$unit.dict")
  echo "fuzzing $unit"
  "$build/tests/fuzz/fuzz_$unit" "${options[@]}" "$found" "tests/fuzz/corpus/$unit" >"$found.log" 2>&1 ||
    { tail -40 "$found.log" >&2; echo "$unit failed; the input is in $found" >&2; exit 1; }
  grep -E 'number_of_executed|average_exec|new_units' "$found.log"
done
