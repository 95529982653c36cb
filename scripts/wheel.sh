#!/usr/bin/env bash
# Makes the wheel in dist/, with the command and the server in it: one for every Python from 3.9 on, and every x86-64 Linux of glibc 2.28 or newer. scripts/setup.sh
# installs what it needs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh

# Another run waits, and who installs the wheel meanwhile finds the old one or the new one.
mkdir -p build
exec 9>build/wheel.lock
flock 9

# From what is built for the tests: the same objects.
scripts/build.sh release camshaft_wheel_files
made=build/wheel
rm -rf "$made"
.venv/bin/python -m pip wheel . --quiet --no-deps --no-build-isolation \
  --config-settings build-dir=build/release --config-settings cmake.define.CAMSHAFT_BUILD_TESTS=ON \
  --config-settings cmake.define.CAMSHAFT_BUILD_EXAMPLES=ON \
  --config-settings cmake.define.CAMSHAFT_BUILD_SERVER=ON --wheel-dir "$made"
PATH=$PWD/.venv/bin:$PATH .venv/bin/python -m auditwheel repair "$made"/camshaft-*.whl --wheel-dir "$made/dist" | tail -1
mkdir -p dist
find dist -name 'camshaft-*.whl' ! -name "$(cd "$made/dist" && ls)" -delete
mv "$made"/dist/camshaft-*.whl dist/
