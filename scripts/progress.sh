# Sourced by the scripts that build.
# show_progress NAME PATTERN [others]: a line for each tenth of the steps that ninja reports in its input, as it comes: an
# awk would read ahead.
#   PATTERN  a regular expression for the step and the number of steps, each in parentheses
#   others   shows every other line too
show_progress() {
  local line tenth shown=0
  while IFS= read -r line; do
    if [[ "$line" =~ $2 ]]; then
      tenth=$((10 * BASH_REMATCH[1] / BASH_REMATCH[2]))
      [ "$tenth" -gt "$shown" ] || continue
      shown=$tenth
      echo "building $1: $((10 * tenth)) %, step ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]}"
    elif [ "${3:-}" = others ]; then
      printf '%s\n' "$line"
    fi
  done
}
