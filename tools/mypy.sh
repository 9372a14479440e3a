#!/usr/bin/env bash
# mypy over the package. It must be seen as a folder named turnwise, and a clone may be called anything: so through a link.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
link=$(mktemp -d)
trap 'rm -rf "$link"' EXIT
ln -s "$root" "$link/turnwise"
cd "$link"
exec_path="$root/.venv/bin/python"
"$exec_path" -m mypy --config-file "$root/pyproject.toml" --cache-dir "$root/.mypy_cache" --python-executable "$exec_path" -p turnwise "$@"
