#!/usr/bin/env bash
# See it work: sets everything up, builds Camshaft, compiles a real text recogniser into an engine, reads a picture with
# it and measures it beside ONNX Runtime. The second run finds all of it in place. What it builds (the preset native) runs
# models as fast as any build, and on processors like this one alone. CAMSHAFT=PROGRAM takes one that is built already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh --demo
if [[ -z ${CAMSHAFT:-} ]]; then
  scripts/build.sh native camshaft_command
  export CAMSHAFT=$PWD/build/native/tools/camshaft
fi
exec .venv/bin/python examples/ocr/read_picture.py "$@"
