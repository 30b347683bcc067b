#!/usr/bin/env bash
# Installs what is missing, builds the release, and runs every test of it.
# Usage: scripts/test.sh [--all]     --all: the sanitizers too
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."
source scripts/environment.sh
case "${1:-}" in
  "" | --all) ;;
  *) echo "test.sh: \"$1\" is not known; usage: scripts/test.sh [--all]" >&2; exit 2 ;;
esac

begin=$SECONDS
steps=2
[ "${1:-}" = --all ] && steps=4
say() { printf '\n== step %d of %d, %d:%02d: %s\n' "$1" $steps $(((SECONDS - begin) / 60)) $(((SECONDS - begin) % 60)) "$2"; }

say 1 "build the release, the Python package and the viewer with their tests"
scripts/build.sh web
scripts/install-dependencies.sh chromium
scripts/build.sh all
say 2 "run the tests"
ctest --preset release --parallel 2
if [ "${1:-}" = --all ]; then
  say 3 "build the unit and damage tests under AddressSanitizer and UndefinedBehaviorSanitizer"
  scripts/build.sh asan sanitized_tests
  say 4 "run them"
  ctest --preset asan --parallel 2 --label-regex 'unit|sanitized'
fi
printf '\nall tests passed in %d:%02d\n' $(((SECONDS - begin) / 60)) $(((SECONDS - begin) % 60))
