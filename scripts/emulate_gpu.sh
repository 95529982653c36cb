#!/usr/bin/env bash
# Runs a command with the emulated GPU of tests/cuda/emulator, so that kernels run on the CPU:
#   scripts/emulate_gpu.sh build/release/tests/test_runtime --gtest_filter='Context.*'
# CAMSHAFT_EMULATED_CAPABILITY=75 (or another) makes it a device of that compute capability; 90 otherwise.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[[ $# -gt 0 ]] || { sed -n '2,/^set/{/^set/d;s/^# \?//p}' "$0"; exit 2; }
build=${CAMSHAFT_BUILD:-$root/build/release}
emulator=$build/tests/cuda/emulator
[[ -e $emulator/lib/libcuda.so.1 ]] || { echo "emulate_gpu.sh: build the targets emulated_driver, emulated_nvrtc and emulated_blas first" >&2; exit 1; }
export CUDA_HOME=$emulator LD_LIBRARY_PATH=$emulator/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export XDG_CACHE_HOME=$emulator/cache CAMSHAFT_TEST_DEVICE=${CAMSHAFT_TEST_DEVICE:-cuda}
exec "$@"
