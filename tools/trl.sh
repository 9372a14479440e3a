#!/usr/bin/env bash
# Create .venv-trl, with TRL, for benchmarks/versus_trl.py.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv-trl
if [ ! -e "$venv/installed" ]; then
    echo "==> TRL into $venv"
    python3 -m venv "$venv"
    torch=$(sed -n 's/^\(torch==[^ ]*\).*/\1/p' requirements.lock)
    "$venv/bin/pip" install --quiet "$torch" ||
        "$venv/bin/pip" install --quiet --extra-index-url https://download.pytorch.org/whl/cpu "$torch"
    "$venv/bin/pip" install --quiet trl==1.16.0 gymnasium==1.4.0
    "$venv/bin/pip" install --quiet --no-deps --editable .
    touch "$venv/installed"
fi
