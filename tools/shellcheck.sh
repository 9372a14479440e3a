#!/usr/bin/env bash
# Checks every shell script of the repository, or the files given, with the shellcheck of .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -eq 0 ]; then
    mapfile -t scripts < <(git ls-files '*.sh' .ci/run)
    [ ${#scripts[@]} -gt 0 ] || { echo "tools/shellcheck.sh: git lists no shell script" >&2; exit 1; }
    set -- "${scripts[@]}"
fi
.venv/bin/shellcheck "$@"
