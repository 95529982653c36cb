#!/usr/bin/env bash
# Fuzzes what reads from others: the ONNX reader (through import, optimiser and a small run), the engine loader, what
# comes to the server over HTTP and gRPC, and its models' configurations.
# Builds with clang-14, AddressSanitizer and UndefinedBehaviorSanitizer, makes seeds of the ONNX standard's node tests,
# and runs the targets side by side. Fails when something was found; findings, made small, lie in .cache/fuzz/findings.
#   --seconds N       how long to run each target (default 60)
#   --runs N --seed S the same inputs each time: N of them, from this random seed and the seed files alone
#   reader | loader | http | grpc | config   that target alone
# scripts/setup.sh --fuzz installs the compiler. The corpora stay in .cache/fuzz and grow from run to run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=60 runs=-1 seed= targets=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --seconds) seconds=${2:?--seconds needs a number}; shift ;;
    --runs) runs=${2:?--runs needs a number}; shift ;;
    --seed) seed=${2:?--seed needs a number}; shift ;;
    reader | loader | http | grpc | config) targets+=("$1") ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \?//p}' "$0"; exit 0 ;;
    *) echo "fuzz.sh: unknown option $1 (--help lists them)" >&2; exit 2 ;;
  esac
  shift
done
[[ $runs -lt 0 ]] || seconds=0  # however long they take
[[ ${#targets[@]} -gt 0 ]] || targets=(reader loader http grpc config)
declare -A programs=([reader]=onnx_reader_fuzzer [loader]=engine_loader_fuzzer [http]=http_request_fuzzer
  [grpc]=infer_message_fuzzer [config]=model_config_fuzzer)
declare -A largest=([reader]=8192 [loader]=32768 [http]=4096 [grpc]=4096 [config]=4096)

command -v clang++-14 >/dev/null || { echo "fuzz.sh: clang++-14 is missing: run scripts/setup.sh --fuzz" >&2; exit 1; }
cmake --preset fuzz >/dev/null
wanted=(make_engine_seeds)
for target in "${targets[@]}"; do wanted+=("${programs[$target]}"); done
cmake --build --preset fuzz --target "${wanted[@]}"

home=$PWD/.cache/fuzz bin=$PWD/build/fuzz/tests/fuzz
mkdir -p "$home/findings"
# allocator_may_return_null: a size that no machine has is an Error(out_of_memory) then, as without the sanitizer.
export ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=0:symbolize=1 UBSAN_OPTIONS=print_stacktrace=1
export ASAN_SYMBOLIZER_PATH=${ASAN_SYMBOLIZER_PATH:-$(command -v llvm-symbolizer-14 || true)}

make_seeds() {
  .venv/bin/python scripts/fuzz_seeds.py "$home"
  if [[ ! -f $home/loader-seeds/made ]]; then
    rm -rf "$home/loader-seeds"
    mkdir -p "$home/loader-seeds"
    find "$home/reader-seeds" -name '*.onnx' -print0 | xargs -0 "$bin/make_engine_seeds" "$home/loader-seeds"
    touch "$home/loader-seeds/made"
  fi
}

# Runs one target; a finding is made smaller, and its report printed.
run_target() {
  local target=$1 program=$bin/${programs[$1]} prefix=$home/findings/$1- status=0
  local corpus=$home/$target-corpus seeds=("$home/$target-seeds")
  if [[ -n $seed ]]; then
    corpus=$home/$target-fixed-corpus
    rm -rf "$corpus"
    # A sorted list: folders are read in an order that differs from disk to disk.
    find "$home/$target-seeds" -type f ! -name made | LC_ALL=C sort | paste -sd, >"$home/$target-seeds.list"
    seeds=("-seed=$seed" "-seed_inputs=@$home/$target-seeds.list")
  fi
  mkdir -p "$corpus"
  local before after
  before=$(find "$home/findings" -name "$target-*" | sort)
  "$program" "$corpus" "${seeds[@]}" -dict="$home/dictionary" -max_total_time="$seconds" -runs="$runs" \
    -max_len="${largest[$target]}" -timeout=20 -rss_limit_mb=3000 -malloc_limit_mb=1000 -print_final_stats=1 \
    -artifact_prefix="$prefix" >"$home/$target.log" 2>&1 || status=$?
  grep -E '^stat::(number_of_executed_units|average_exec_per_sec|new_units_added|peak_rss_mb)' "$home/$target.log" || true
  [[ $status -eq 0 ]] && return 0
  after=$(find "$home/findings" -name "$target-*" | sort)
  local finding
  finding=$(comm -13 <(printf '%s\n' "$before") <(printf '%s\n' "$after") | head -1)
  echo "fuzz.sh: the $target fuzzer found something:"
  grep -vE '^#[0-9]+[[:space:]]+(NEW|REDUCE|INITED|RELOAD|pulse)' "$home/$target.log" |
    sed -n '/ERROR\|runtime error/,$p' | head -60 | cut -c1-300
  if [[ -n $finding ]]; then
    "$program" -minimize_crash=1 -runs=2000 -max_total_time=30 -timeout=20 -rss_limit_mb=3000 -malloc_limit_mb=1000 \
      -exact_artifact_path="$finding.small" "$finding" >"$finding.log" 2>&1 || true
    echo "fuzz.sh: saved as $finding${finding:+ (smaller: $finding.small)}"
  fi
  return 1
}

make_seeds
failed=0
declare -A running
for target in "${targets[@]}"; do
  if [[ $runs -lt 0 ]]; then echo "fuzz.sh: $target, $seconds s"; else echo "fuzz.sh: $target, $runs runs"; fi
  run_target "$target" >"$home/$target.said" &
  running[$target]=$!
done
for target in "${targets[@]}"; do
  wait "${running[$target]}" || failed=1
  sed "s/^/$target: /" "$home/$target.said"
done
exit $failed
