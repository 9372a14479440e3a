#!/usr/bin/env bash
# Create .venv-axe, with the accessibility rules of axe-core, for tests/console/viewer/browser/test_accessibility.py.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv-axe
if [ ! -e "$venv/installed" ]; then
    echo "==> axe into $venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --no-deps axe-playwright-python==0.1.8
    touch "$venv/installed"
fi
