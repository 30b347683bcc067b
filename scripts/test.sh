#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test; then the unit tests and the damage tests once more under
# AddressSanitizer and UndefinedBehaviorSanitizer.
# Usage: scripts/test.sh [--quick]     --quick leaves the sanitizers out
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh

scripts/build.sh release
ctest --preset release --parallel 2

if [ "${1:-}" != "--quick" ]; then
  scripts/build.sh asan sanitized_tests
  ctest --preset asan --parallel 2 --label-regex 'unit|sanitized'
fi
