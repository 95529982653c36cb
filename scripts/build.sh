#!/usr/bin/env bash
# Builds a CMake preset (release unless named): scripts/build.sh [release|debug|asan|tsan]. Prints only when there is work.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=${1:-release}

# Another clone of the same sources, in another folder, finds its objects in the compiler cache.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# Sources are globbed with CONFIGURE_DEPENDS, so one configuration is enough; ninja repeats it when a list changes.
[[ -f build/$preset/build.ninja ]] || cmake --preset "$preset"
cmake --build --preset "$preset" | { grep -v '^ninja: no work to do' || true; }
