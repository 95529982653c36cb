#!/usr/bin/env bash
# Checks the sources: formatting (clang-format for C++, ruff for Python) and, with --tidy, the C++ linter (clang-tidy) over
# the release build's compile commands.
#   lint.sh                 formatting of every file, and ruff's checks
#   lint.sh --fix           formats in place
#   lint.sh --tidy          formatting, then clang-tidy on the .cpp files that differ from the main branch's merge base
#   lint.sh --tidy --all    clang-tidy on every .cpp file (many minutes on two cores)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fix=0 tidy=0 all=0
for option in "$@"; do
  case $option in
    --fix) fix=1 ;;
    --tidy) tidy=1 ;;
    --all) all=1 ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \?//p}' "$0"; exit 0 ;;
    *) echo "lint.sh: unknown option $option (--help lists them)" >&2; exit 2 ;;
  esac
done

mapfile -t sources < <(git ls-files '*.h' '*.hpp' '*.cpp')
if ((fix)); then
  .venv/bin/clang-format -i "${sources[@]}"
  .venv/bin/ruff format -q
  .venv/bin/ruff check -q --fix
else
  loose=$(.venv/bin/clang-format --dry-run "${sources[@]}" 2>&1 | sed -n 's/^\([^:]*\):[0-9].*/\1/p' | sort -u)
  [[ -z $loose ]] || { printf '%s\n' "$loose" | sed 's/^/not formatted (lint.sh --fix repairs it): /' >&2; exit 1; }
  .venv/bin/ruff format -q --check
  .venv/bin/ruff check -q
fi
((tidy)) || exit 0

if ((all)); then
  mapfile -t units < <(git ls-files 'src/*.cpp' 'tools/*.cpp' 'examples/*.cpp' 'tests/*.cpp')
else
  base=$(git merge-base HEAD "$(git rev-parse --verify -q origin/main || git rev-parse HEAD)")
  mapfile -t units < <(git diff --name-only --diff-filter=d "$base" -- 'src/*.cpp' 'tools/*.cpp' 'examples/*.cpp' 'tests/*.cpp')
fi
[[ ${#units[@]} -gt 0 ]] || exit 0
scripts/setup.sh --lint
[[ -f build/release/compile_commands.json ]] || scripts/build.sh release
printf '%s\0' "${units[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-14 -p build/release --quiet
