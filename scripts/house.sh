#!/usr/bin/env bash
# Checks two rules of the sources: no file has more than 500 lines, and no C++ header includes itself, directly or through
# others. Tests and benchmarks may be longer.
# Usage: scripts/house.sh [FOLDER]     default: the repository; FOLDER is another Git repository
# Prints each finding, and ends with 1 if there is one.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "${1:-$(dirname "$0")/..}"

most=500
failed=0

while read -r lines file; do
  if [ "$lines" -gt "$most" ]; then
    echo "$file: $lines lines, more than $most; move what is another thing to a file of its own"
    failed=1
  fi
done < <(git ls-files -z -- '*.cc' '*.h' '*.inl' '*.c' '*.py' '*.ts' '*.sh' ':!tests/*' ':!*/tests/*' ':!benchmarks/*' |
         { xargs -0 --no-run-if-empty wc -l || true; } | sed '/ total$/d')

# tsort names the members of each circle.
circles=$({ git grep -E '^#include "' -- '*.h' || true; } | sed -E 's/^([^:]*):#include "([^"]*)".*/\1 \2/; s/^include\///' |
          tsort 2>&1 >/dev/null | sed 's/^tsort: //') || true
if [ -n "$circles" ]; then
  printf '%s\n' "headers that include each other:" "$circles" "move what both need to a header below them"
  failed=1
fi
exit "$failed"
