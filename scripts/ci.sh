#!/usr/bin/env bash
# Runs continuous integration, also on a fresh machine: every stage in order, each with its duration; the first failure
# ends the run. docs/decisions/build-and-ci.md has its contents and the reasons.
# Usage: scripts/ci.sh                      the stages of CI: about an hour on two processors with nothing cached
#        QUARRY_TEST_FULL=1 scripts/ci.sh   the long form: all counts and sizes, mutants, other libraries, every source on its own and under clang-tidy; hours
#        scripts/ci.sh --list               names of the stages
#        scripts/ci.sh STAGE...             some of them
# Environment:
#   QUARRY_SEED      for everything that is random; default: the day, so that it rotates. Printed, to repeat a run
#   QUARRY_CI_BASE   the commit that changes are counted from; default: for clang-tidy the previous one, for the fuzzers
#                    the last one that is a day older
# Logs lie in build/ci.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."

full=${QUARRY_TEST_FULL:-0}
ci_stages=(packages format release stores demo install asan fuzz tsan tidy writer-only identity)
long_stages=(dev mutants differential soak bare-root)
fuzzers=(clang libclang-rt-14-dev libomp-14-dev)
checkers=(clang-format clang-tidy)

# ctest of a preset; names what is skipped.
run_ctest() {
  ctest "$@" --parallel 2 --output-on-failure
}

stage_packages() {
  scripts/install-dependencies.sh "${fuzzers[@]}" "${checkers[@]}"
  [ -d ../shared/data ] || { echo "there is no ../shared/data beside the repository, and the tests need it"; return 1; }
}

stage_format() {
  scripts/format.sh --check
  scripts/house.sh
  # The lines that mutants change are still there, though only the long form runs them.
  tests/mutants/run.py --list >build/ci/mutants.list || { grep "in one place" build/ci/mutants.list; return 1; }
}

stage_release() {
  scripts/build.sh web
  scripts/wasm.sh --check
  scripts/install-dependencies.sh chromium
  if [ "$full" = 1 ]; then
    scripts/build.sh all
    run_ctest --preset release
  else
    # The stages asan and fuzz run the others.
    QUARRY_BUILD_UNIT_TESTS=OFF scripts/build.sh all
    run_ctest --preset release --label-exclude sanitized
    run_ctest --preset release --label-regex 'identity|property'
  fi
  /usr/bin/python3 benchmarks/reproduce.py --check
}

stage_demo() { scripts/demo.sh build/ci/demo; }

# The installed tree, as others use it.
stage_install() { tests/install/run.sh build/release; }

stage_asan() {
  scripts/build.sh asan sanitized_tests
  if [ "$full" = 1 ]; then
    scripts/build.sh asan
    run_ctest --preset asan
  else
    run_ctest --preset asan --label-regex 'unit|sanitized'
  fi
}

# The fuzzers of the stage asan, whose build they share.
stage_fuzz() {
  if [ "$full" = 1 ]; then
    scripts/fuzz.sh 600
    return
  fi
  # A push has many commits: those of the last day count.
  local base=${QUARRY_CI_BASE:-$(git rev-list -1 --before="@$(($(git log -1 --format=%ct) - 86400))" HEAD)}
  scripts/fuzz.sh ${base:+--changed "$base"} 20
}

# Without the tests that use gRPC or make a protobuf message, into whose libraries ThreadSanitizer does not see, and
# without those that end a writer at each call, which take minutes and have no threads that others lack.
stage_tsan() {
  scripts/build.sh tsan threaded_tests
  local server='server/(Acceptor|Access|ClientShares|Connection|CoreTest|DatasetCatalogTest|RemoteCatalogTest|DeadlineWatch|IsGoodRequestId|Metrics|NewRequestId|RateLimit|ServerLog|TokenStoreTest|Workers)\.'
  TSAN_OPTIONS='halt_on_error=1 second_deadlock_stack=1' \
    run_ctest --preset tsan --exclude-regex 'SurvivesAnEndAtEachCall|SurviveAnEndAtEachCall' --tests-regex "^unit/(storage/(AtOnceTest|Every|LookAtEach)|remote/|disk_cache/|store/|dataset/|pipeline/EncoderPool|pipeline_single/|$server)"
}

stage_tidy() {
  if [ "$full" = 1 ]; then scripts/tidy.sh --all; else scripts/tidy.sh; fi
}

stage_writer-only() { scripts/build.sh writer-only; }

stage_identity() {
  if [ "$full" = 1 ]; then scripts/identity.sh; else scripts/identity.sh --quick; fi
}

# Each source on its own: a missing include is noticed.
stage_dev() { scripts/build.sh dev; }

stage_mutants() { tests/mutants/run.py; }

# Compares the reading of other libraries with Quarry's.
stage_differential() { scripts/differential.sh --json build/ci/differential.json; }

# Reads datasets from servers of others.
stage_stores() {
  if [ "$full" = 1 ]; then scripts/object-store.sh; else scripts/object-store.sh nginx; fi
}

stage_soak() {
  tests/soak/soak.py --minutes 3 --seed "$QUARRY_SEED"
  (cd clients/web && QUARRY_BIN=$PWD/../../build/release/bin npm run --silent soak)
}

# The packages and the wheel, in a Debian root without anything else; needs root.
stage_bare-root() {
  scripts/install-dependencies.sh mmdebstrap
  scripts/build.sh web
  scripts/build.sh package
  tests/install/bare_root.sh build/package
  scripts/wheel.sh
  tests/install/bare_root_wheel.sh build/wheel/quarry_data-*-cp311-*.whl build/wheel/quarry_outofcore-*.whl
}

# ---- Running them

if [ "${1:-}" = --run-stage ]; then  # in a process of its own, where an error ends it
  "stage_$2"
  exit
fi

stages=("${ci_stages[@]}")
[ "$full" = 1 ] && stages+=("${long_stages[@]}")
if [ "${1:-}" = --list ]; then
  printf '%s\n' "${stages[@]}"
  exit
fi
if [ $# -gt 0 ]; then
  for stage in "$@"; do
    declare -F "stage_$stage" >/dev/null || { echo "ci: there is no stage $stage; see scripts/ci.sh --list" >&2; exit 2; }
  done
  stages=("$@")
fi

source scripts/environment.sh
export QUARRY_SEED=${QUARRY_SEED:-$(date +%Y%j)}
export QUARRY_REQUIRE_DATA=1
# The same warnings everywhere: objects of the release come from the compiler's cache in later stages.
export QUARRY_WARNINGS_AS_ERRORS=ON
export DEBIAN_FRONTEND=noninteractive
mkdir -p build/ci
echo "ci: seed $QUARRY_SEED (QUARRY_SEED=$QUARRY_SEED scripts/ci.sh runs the same again), $(nproc) processors, commit $(git rev-parse --short HEAD)"

begun=$SECONDS
table=()
passed=0
failed=0
skipped=0
minutes() { printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); }

# Tests in a log of ctest, and those skipped.
count_tests() {
  local log=$1 line
  while read -r line; do
    local bad=${line#*tests passed, }
    bad=${bad%% *}
    failed=$((failed + bad))
    passed=$((passed + ${line##* } - bad))
  done < <(grep -E '^[0-9]+% tests passed, [0-9]+ tests failed out of [0-9]+' "$log")
  local out
  out=$(grep -cE '^[[:space:]]+[0-9]+ - .* \(Skipped\)' "$log" || true)
  passed=$((passed - out))
  skipped=$((skipped + out))
}

report() {
  echo
  printf '%s\n' "${table[@]}"
  echo "seed $QUARRY_SEED, $skipped skipped, $(minutes $((SECONDS - begun)))"
  echo "$passed passed, $failed failed"
}

for stage in "${stages[@]}"; do
  # A stage whose files are missing in this tree is neither passed nor failed.
  if [[ "$stage" =~ ^(install|bare-root)$ ]] && [ ! -d tests/install ]; then
    table+=("$(printf '%-12s is not there' "$stage")")
    continue
  fi
  start=$SECONDS
  log=build/ci/$stage.log
  printf '\n== %s (after %s)\n' "$stage" "$(minutes $((SECONDS - begun)))"
  result=passed
  "$0" --run-stage "$stage" </dev/null 2>&1 | tee "$log" || result=FAILED
  took=$((SECONDS - start))
  before=$((passed + failed))
  count_tests "$log"
  # A stage without tests of ctest counts as one; so does one that fails apart from them.
  if [ $result = FAILED ] && [ $failed -eq 0 ]; then failed=1; fi
  if [ $result = passed ] && [ $((passed + failed)) -eq "$before" ]; then passed=$((passed + 1)); fi
  table+=("$(printf '%-12s %-7s %s' "$stage" "$result" "$(minutes $took)")")
  echo "== $stage $result, $(minutes $took)"
  if [ $result = FAILED ]; then
    report
    echo "ci: stage $stage failed; its log is $log. Again: QUARRY_SEED=$QUARRY_SEED scripts/ci.sh $stage" >&2
    exit 1
  fi
done
report
