#!/usr/bin/env bash
# Install the Debian packages that `install`, `test` and `up` need; without root, print the missing ones.
set -euo pipefail
purpose=${1:?usage: system_parts.sh install|test|up}

has_postgres() { command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; }
has_numa() { compgen -G '/usr/lib/*/libnuma.so.1' >/dev/null || ldconfig -p 2>/dev/null | grep -q 'libnuma\.so\.1'; }
has_seccomp() { compgen -G '/usr/lib/*/libseccomp.so.2' >/dev/null || ldconfig -p 2>/dev/null | grep -q 'libseccomp\.so\.2'; }
has_engine() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }
has_venv() { [ -x .venv/bin/python ] || [ -n "${PYTHON:-}" ] || python3 -c 'import ensurepip, venv' 2>/dev/null; }

die() { printf '%s\n' "$*" >&2; exit 1; }

# The engine is a service of the machine, not of the tests: it is left running.
start_engine() {
    { [ "$purpose" != install ] && ! has_engine; } || return 0
    [ "$(id -u)" -eq 0 ] || die "no Docker engine answers: ask the administrator to start it (service docker start) and to add you to the group docker."
    if ! pgrep -x dockerd >/dev/null; then
        echo "==> starting the Docker engine"
        service docker start >/dev/null 2>&1 || (setsid dockerd </dev/null >/var/log/dockerd.log 2>&1 &)
    fi
    for _ in $(seq 60); do has_engine && return 0; sleep 1; done
    die "the Docker engine did not answer within 60 s; /var/log/docker.log or /var/log/dockerd.log may say why"
}

missing=()
has_venv || missing+=(python3-venv)
has_numa || missing+=(libnuma1)
if [ "$purpose" != install ]; then
    has_postgres || missing+=(postgresql)
    command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ] || missing+=(pgbouncer)
    command -v git >/dev/null || missing+=(git)
    command -v bwrap >/dev/null || missing+=(bubblewrap)
    has_seccomp || missing+=(libseccomp2)
    [ -x /usr/bin/python3 ] || missing+=(python3)
    [ "$purpose" = test ] || command -v docker-compose >/dev/null || missing+=(docker-compose)
    if ! has_engine; then
        command -v dockerd >/dev/null || missing+=(docker.io iptables procps tini)
        command -v debootstrap >/dev/null || [ -x /usr/sbin/debootstrap ] || missing+=(debootstrap)
    fi
fi

[ ${#missing[@]} -gt 0 ] || { start_engine; exit 0; }

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "==> Debian packages: ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
else
    printf 'missing on this machine: %s\nAsk the administrator to run: apt-get install %s\n' "${missing[*]}" "${missing[*]}" >&2
    exit 1
fi
start_engine
