#!/usr/bin/env bash
# Sees to the Debian packages that `install` and `test` need: installs what is missing as root, names it to anyone else.
set -euo pipefail
purpose=${1:?usage: system_parts.sh install|test}

has_postgres() { command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; }
has_numa() { compgen -G '/usr/lib/*/libnuma.so.1' >/dev/null || ldconfig -p 2>/dev/null | grep -q 'libnuma\.so\.1'; }
has_venv() { [ -x .venv/bin/python ] || [ -n "${PYTHON:-}" ] || python3 -c 'import ensurepip, venv' 2>/dev/null; }

missing=()
has_venv || missing+=(python3-venv)
has_numa || missing+=(libnuma1)
if [ "$purpose" = test ]; then
    has_postgres || missing+=(postgresql)
    command -v git >/dev/null || missing+=(git)
fi
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "==> Debian packages: ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
else
    printf 'missing on this machine: %s\nAsk whoever is root to run: apt-get install %s\n' "${missing[*]}" "${missing[*]}" >&2
    exit 1
fi
