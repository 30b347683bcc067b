#!/usr/bin/env bash
# Runs clang-tidy on the sources that changed, with the compile commands of the preset "dev".
# Usage: scripts/tidy.sh [BASE]     changes since BASE; default: QUARRY_CI_BASE, or the commit before this one
#        scripts/tidy.sh --all      every source
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."
scripts/install-dependencies.sh clang-tidy
program=$(command -v clang-tidy-14 || command -v clang-tidy)
[ -f build/dev/compile_commands.json ] || scripts/build.sh dev quarry_proto_grpc

base=${1:-${QUARRY_CI_BASE:-HEAD~1}}
if [ "$base" = --all ]; then
  files=$(git ls-files '*.cc')
elif git rev-parse --quiet --verify "$base^{commit}" >/dev/null; then
  files=$(git diff --name-only --diff-filter=d "$base" -- '*.cc')
else
  echo "there is no commit $base to compare with (a shallow clone?): nothing is checked"
  exit 0
fi
# Only what the preset compiles: fuzz targets use another compiler.
known=()
for file in $files; do
  grep -qF "\"$PWD/$file\"" build/dev/compile_commands.json && known+=("$file")
done
echo "${#known[@]} files since $base"
# A merge may bring hundreds: as many are checked as take some minutes, the long form has the others.
most=24
if [ "$base" != --all ] && [ ${#known[@]} -gt $most ]; then
  echo "checks $most of them; scripts/tidy.sh --all checks every source"
  known=("${known[@]:0:$most}")
fi
[ ${#known[@]} -eq 0 ] || printf '%s\0' "${known[@]}" | xargs -0 -n 1 -P "$(nproc)" "$program" -p build/dev --quiet --warnings-as-errors='*'
