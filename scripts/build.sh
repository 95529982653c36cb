#!/usr/bin/env bash
# Builds a CMake preset (release unless named): scripts/build.sh [release|native|debug|asan|tsan|aarch64] [TARGET...]. Without
# targets it builds all, tests included, and of aarch64 what runs there. Prints only when there is work. A first build
# joins so many sources as CAMSHAFT_JOINED_SOURCES says, where that is set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=${1:-release}
targets=()
[[ $# -lt 2 ]] || targets=(--target "${@:2}")

# Another clone of the same sources, in another folder, finds its objects in the compiler cache.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# Sources are globbed with CONFIGURE_DEPENDS, so one configuration is enough; ninja repeats it when a list changes.
joined=(${CAMSHAFT_JOINED_SOURCES:+-D CAMSHAFT_JOINED_SOURCES="$CAMSHAFT_JOINED_SOURCES"})
[[ -f build/$preset/build.ninja ]] || cmake --preset "$preset" "${joined[@]}"
cmake --build --preset "$preset" "${targets[@]}" | { grep -v '^ninja: no work to do' || true; }
