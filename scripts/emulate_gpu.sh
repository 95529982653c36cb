#!/usr/bin/env bash
# Runs a command with the emulated GPU of tests/backends/cuda/emulator, so that kernels run on the CPU:
#   scripts/emulate_gpu.sh build/release/tests/test_runtime --gtest_filter='Context.*'
# CAMSHAFT_EMULATED_CAPABILITY=75 (or another) makes it a device of that compute capability; 90 otherwise.
# CAMSHAFT_EMULATED_MEMORY (bytes), CAMSHAFT_EMULATED_DRIVER (12040 is CUDA 12.4's) and CAMSHAFT_EMULATED_DEVICES (how many: 1) change that too.
# CAMSHAFT_EMULATED_COMPILER=0 leaves NVIDIA's compiler in its place, where there is one: kernels are compiled and not run.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[[ $# -gt 0 ]] || { sed -n '2,/^set/{/^set/d;s/^# \?//p}' "$0"; exit 2; }
build=${CAMSHAFT_BUILD:-$root/build/release}
emulator=$build/tests/backends/cuda/emulator
[[ -e $emulator/lib/libcuda.so.1 ]] || { echo "emulate_gpu.sh: build the targets emulated_driver, emulated_nvrtc, emulated_blas and emulated_nccl first" >&2; exit 1; }
if [[ ${CAMSHAFT_EMULATED_COMPILER:-1} = 0 ]]; then
    libraries=$emulator/driver
    mkdir -p "$libraries"
    ln -sf ../lib/libcuda.so.1 "$libraries/libcuda.so.1"
    export VIRTUAL_ENV=${VIRTUAL_ENV:-$root/.venv}
else
    libraries=$emulator/lib
    export CUDA_HOME=$emulator
fi
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export XDG_CACHE_HOME=$emulator/cache CAMSHAFT_TEST_DEVICE=${CAMSHAFT_TEST_DEVICE:-cuda}
exec "$@"
