#!/usr/bin/env bash
# Create .venv-schemathesis, and send the viewer at URL what the schema of its API allows, and what it forbids:
# tools/schemathesis.sh URL [OPTION...]
# A valid text may name a member, a window or a cursor that does not exist: 400 for it is no fault.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv-schemathesis
if [ ! -e "$venv/installed" ]; then
    echo "==> schemathesis into $venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet schemathesis==4.32.5
    touch "$venv/installed"
fi
address=$1
shift
exec "$venv/bin/schemathesis" run "$address/api/openapi.json" --exclude-checks positive_data_acceptance "$@"
