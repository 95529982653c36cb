#!/usr/bin/env bash
# Passes the tests: sets up, builds, runs the C++ tests (ctest) and the Python ones (pytest), and ends with one line,
# 'N passed, N failed'. Exits with an error if any failed.
#   --all          also the large models (needs 3 GB of disk under .cache)
#   --sanitize     also the C++ tests with AddressSanitizer and UndefinedBehaviorSanitizer, those of the Python module on
#                  wrong input, and about a minute of each fuzzer of files, on the same inputs each time (a build of its
#                  own, with clang, and kernels for AVX2)
#   --preset NAME  the C++ tests alone, in another build: debug, asan, tsan, or aarch64 (those of base, ir and
#                  the CPU kernels, cross compiled and run under QEMU)
#   --seed N       random tests draw from N (CAMSHAFT_TEST_SEED), where they draw from a new seed each time otherwise
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=release all=() sanitize=0
while [[ $# -gt 0 ]]; do
  case $1 in
    --all) all=(--all) ;;
    --sanitize) sanitize=1 ;;
    --preset) preset=${2:?--preset needs a name: release, debug, asan, tsan or aarch64}; shift ;;
    --seed) export CAMSHAFT_TEST_SEED=${2:?--seed needs a number}; shift ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \?//p}' "$0"; exit 0 ;;
    *) echo "test.sh: unknown option $1 (--help lists them)" >&2; exit 2 ;;
  esac
  shift
done

# says WHAT: prints how long that took.
says() {
  echo "test.sh: $1 in $((SECONDS - since)) s"
  since=$SECONDS
}
since=$SECONDS

setup=()
[[ $preset != aarch64 ]] || setup+=(--aarch64)
((!sanitize)) || setup+=(--fuzz)
scripts/setup.sh "${setup[@]}"
says "set up"
scripts/build.sh "$preset"
says "built"

results=$PWD/.cache/results/tests
rm -rf "$results"
mkdir -p "$results/gtest"

# So many programs side by side: one takes a core for most of its time.
jobs=$(nproc)
((jobs <= 4)) || jobs=4

# Each runner's name and exit status.
ran=()
# runs NAME COMMAND...
runs() {
  local name=$1 status=0
  shift
  "$@" || status=$?
  ran+=("$name=$status")
}
# Where the tests find NVRTC.
export VIRTUAL_ENV=$PWD/.venv
GTEST_OUTPUT=xml:$results/gtest/ runs ctest ctest --preset "$preset" -j "$jobs" --output-junit "$results/ctest.xml"
says "C++ tests"
if [[ $preset == release ]]; then
  runs pytest .venv/bin/python -m pytest -n "$jobs" --dist loadfile --junit-xml "$results/pytest.xml" "${all[@]}"
  says "Python tests"
fi
if ((sanitize)); then
  # Those that take a minute in all; the others run in the preset asan.
  sanitized=(base ir reference onnx plugin optimize compile engine)
  scripts/build.sh fuzz "${sanitized[@]/#/test_}"
  says "built for the sanitizers"
  mkdir -p "$results/sanitized/gtest"
  GTEST_OUTPUT=xml:$results/sanitized/gtest/ runs sanitized/ctest ctest --preset fuzz -j "$jobs" \
    -R "^($(IFS='|' && echo "${sanitized[*]}"))\$" --output-junit "$results/sanitized/ctest.xml"
  says "C++ tests with sanitizers"
  runs fuzzers scripts/fuzz.sh reader loader --runs 10000 --seed 1
  says "fuzzers built and run"
  runs sanitized/pytest scripts/sanitize_python.sh --junit-xml "$results/sanitized/pytest.xml"
  says "Python module built for the sanitizers, and its tests of wrong input"
fi
.venv/bin/python scripts/summarise_tests.py "$results" "${ran[@]}"
