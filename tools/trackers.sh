#!/usr/bin/env bash
# Create .venv-trackers, with every tracker's package, and test each tracker there, without a network: the packages are
# large, so the tests that CI runs use TensorBoard alone.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv-trackers
if [ ! -e "$venv/installed" ]; then
    echo "==> trackers into $venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet mlflow-skinny tensorboard trackio wandb pytest pytest-timeout
    "$venv/bin/pip" install --quiet --editable .
    touch "$venv/installed"
fi
"$venv/bin/python" -m pytest -q -m "soak or not soak" --noconftest tests/trainer/telemetry/trackers "$@"
