#!/usr/bin/env bash
# Builds the fuzzers (preset asan) and runs each of them, from the corpus in tests/fuzz and what earlier runs found.
# Usage: scripts/fuzz.sh [--changed BASE] [SECONDS [TARGET...]]     60 seconds each; all targets, two at a time
#   --changed BASE   targets without a change since this commit in any file that they are made of: the corpus alone
# QUARRY_SEED: seed of libFuzzer; without it, another one each time.
# Findings stay in build/fuzz/findings; exit code 1 if there are any.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."

base=
if [ "${1:-}" = --changed ]; then
  base=${2:?"fuzz.sh: --changed needs a commit"}
  shift 2
fi
seconds=${1:-60}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(interpolate references safeguards lossless wavelet_zfp masked subfile manifest dataset index wire answer service http tokens seal config vti npy tiff netcdf_classic)

scripts/build.sh asan "${targets[@]/#/fuzz_}"

mkdir -p build/fuzz/findings build/fuzz/logs
if [ -n "$base" ] && ! git diff --name-only "$base" -- >build/fuzz/changed 2>/dev/null; then
  echo "there is no commit $base to compare with (a shallow clone?): every target counts as changed"
  base=
fi

# Whether a file changed that this target is compiled from.
changed() {
  [ -n "$base" ] || return 0
  ninja -C build/asan -t inputs "fuzz_$1" | grep '\.o$' | xargs ninja -C build/asan -t deps |
    sed -n -e "s,^    $PWD/,,p" -e 's,^    \.\./\.\./,,p' | grep -xFf build/fuzz/changed >/dev/null
}

run() {
  local target=$1 log=build/fuzz/logs/$1.log corpus=build/fuzz/corpus/$1
  local dictionary=tests/fuzz/$target.dict options=()
  [ -f "$dictionary" ] && options+=("-dict=$dictionary")
  # Whole datasets are larger, and their manifests have the words of the others.
  local longest=16384
  [ "$target" != dataset ] || { longest=32768; options+=("-dict=tests/fuzz/manifest.dict"); }
  [ -n "${QUARRY_SEED:-}" ] && options+=("-seed=$QUARRY_SEED")
  changed "$target" || options+=(-runs=0)
  mkdir -p "$corpus"
  # A damaged input takes bounded time and memory, whether it is refused at once or after some work. Freed memory that
  # AddressSanitizer keeps back (256 MiB by default) counts towards the limit, and grows with the number of inputs.
  if ASAN_OPTIONS=quarantine_size_mb=64 build/asan/bin/fuzz_"$target" -max_total_time="$seconds" -rss_limit_mb=512 \
       -malloc_limit_mb=256 -timeout=10 -max_len="$longest" -print_final_stats=1 \
       -artifact_prefix=build/fuzz/findings/"$target"- "${options[@]}" "$corpus" tests/fuzz/corpus/"$target" >"$log" 2>&1; then
    local result=good
  else
    local result=BROKEN
  fi
  echo "$target: $result, $(awk '/number_of_executed_units/ {print $2}' "$log") executions," \
       "$(grep -o 'cov: [0-9]* ft: [0-9]*' "$log" | tail -1 | sed 's/cov: \([0-9]*\) ft: \([0-9]*\)/\1 edges, \2 features/')"
  [ $result = good ] || grep -v '^\[libprotobuf' "$log" | grep -E -m 3 'BROKEN|ERROR|runtime error' || true
  [ $result = good ]
}

failed=0
for ((i = 0; i < ${#targets[@]}; i += 2)); do
  run "${targets[i]}" &
  first=$!
  if [ $((i + 1)) -lt ${#targets[@]} ]; then run "${targets[i + 1]}" || failed=1; fi
  wait $first || failed=1
done
exit $failed
