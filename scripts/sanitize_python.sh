#!/usr/bin/env bash
# Runs tests of the Python module with AddressSanitizer and UndefinedBehaviorSanitizer: those of wrong input, or the
# files that are given, beside other arguments for pytest. Builds the module alone in the preset fuzz (clang, kernels for
# AVX2).
# Memory that is still there at the end is looked at, too: what Python and NumPy leave counts for nothing, what a
# function of ours allocated fails. scripts/setup.sh --fuzz installs the compiler.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case ${1:-} in
  -h | --help) sed -n '2,/^set/{/^set/d;s/^# \?//p}' "$0"; exit 0 ;;
esac
tests=("$@")
[[ "$*" == *.py* ]] || tests+=(tests/python/test_wrong_input.py)

command -v clang++-14 >/dev/null || { echo "sanitize_python.sh: clang++-14 is missing: run scripts/setup.sh --fuzz" >&2; exit 1; }
scripts/build.sh fuzz camshaft_python

reports=$PWD/.cache/results/sanitized/python
rm -rf "$reports"
mkdir -p "$reports"
export ASAN_SYMBOLIZER_PATH=${ASAN_SYMBOLIZER_PATH:-$(command -v llvm-symbolizer-14 || true)}
export ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1:log_path=$reports/report UBSAN_OPTIONS=print_stacktrace=1
export LSAN_OPTIONS=exitcode=0:max_leaks=0
# libstdc++ beside it: the sanitizer looks for it when it starts, before Python has loaded the module.
failed=0
CAMSHAFT=$PWD/build/fuzz/tools/camshaft VIRTUAL_ENV=$PWD/.venv PYTHONMALLOC=malloc \
  LD_PRELOAD="$(clang++-14 -print-file-name=libclang_rt.asan-x86_64.so) $(clang++-14 -print-file-name=libstdc++.so.6)" \
  .venv/bin/python -m pytest -q -p no:cacheprovider "${tests[@]}" || failed=1

# A leak's report is a paragraph with the frames of the allocation.
leaks=$(cat "$reports"/report* 2>/dev/null | awk -v RS= '/leak of/ && /camshaft::/' || true)
if [[ -n $leaks ]]; then
  echo "sanitize_python.sh: memory stays that the library allocated:"
  cut -c1-200 <<<"$leaks" | sed -n 1,80p
  failed=1
fi
if grep -qsE 'ERROR: AddressSanitizer|runtime error' "$reports"/report*; then
  echo "sanitize_python.sh: the sanitizer found:"
  grep -hE -A 30 'ERROR: AddressSanitizer|runtime error' "$reports"/report* | cut -c1-200 | sed -n 1,80p
  failed=1
fi
exit $failed
