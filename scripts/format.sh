#!/usr/bin/env bash
# Formats the C and C++ sources with the version of clang-format that Debian 12 has.
# Usage: scripts/format.sh [--check]     --check changes nothing, and ends with 1 if something is not formatted, or if
#                                        scripts/comments.py finds a comment or a line of a document
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."
scripts/install-dependencies.sh clang-format
program=$(command -v clang-format-14 || command -v clang-format)
if [ "${1:-}" != --check ]; then
  git ls-files -z '*.cc' '*.h' '*.c' '*.inl' | xargs -0 "$program" -i
  exit 0
fi
wrong=$({ git ls-files -z '*.cc' '*.h' '*.c' '*.inl' | xargs -0 "$program" --dry-run --Werror 2>&1 || true; } |
        sed -n 's/^\([^ :]*\):[0-9]*:[0-9]*: error:.*/not formatted: \1/p' | sort -u)
failed=0
[ -z "$wrong" ] || { printf '%s\n' "$wrong" "run scripts/format.sh"; failed=1; }
scripts/comments.py || { echo "rewrite these; scripts/comments.py --help says how"; failed=1; }
exit "$failed"
