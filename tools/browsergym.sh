#!/usr/bin/env bash
# Create .venv-browsergym, with BrowserGym and MiniWoB's pages, for benchmarks/web_vs_browsergym.py.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ ! -x /usr/bin/chromium-headless-shell ]; then
    [ "$(id -u)" -eq 0 ] || { echo "run as root: apt-get install chromium-headless-shell" >&2; exit 1; }
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium-headless-shell
fi
venv=.venv-browsergym
if [ ! -e "$venv/installed" ]; then
    echo "==> BrowserGym into $venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet browsergym-miniwob==0.14.3 playwright==1.44.0
    "$venv/bin/pip" install --quiet --no-deps miniwob==1.1.0
    touch "$venv/installed"
fi
