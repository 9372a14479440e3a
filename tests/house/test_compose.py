"""The security settings of compose.yaml, and the checks with which ``make up`` begins."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from turnwise.tests.store.making import sqlite_store

ROOT = Path(__file__).resolve().parents[2]
COMPOSED = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSED["services"]
ENGINE = "/var/run/docker.sock"


def test_ports_are_published_on_loopback_only() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert all("network_mode" not in service for service in SERVICES.values())


def test_only_the_sandboxes_container_holds_the_engine_and_it_holds_no_database_password() -> None:
    holders = [name for name, service in SERVICES.items() if any(ENGINE in one for one in service.get("volumes", []))]
    assert holders == ["sandboxes"]
    assert SERVICES["sandboxes"]["secrets"] == ["ray_token"]
    assert "PGPASSFILE" not in SERVICES["sandboxes"]["environment"]


def test_the_socket_folder_is_at_the_same_path_on_both_sides() -> None:
    sandboxes = SERVICES["sandboxes"]
    folder = sandboxes["environment"]["TURNWISE_SOCKETS"]
    assert f"{folder}:{folder}" in sandboxes["volumes"]


def test_secrets_are_files_and_stay_out_of_the_repository() -> None:
    assert all(list(secret) == ["file"] for secret in COMPOSED["secrets"].values())
    assert "secrets/" in (ROOT / ".gitignore").read_text().splitlines()
    assert "secrets" in (ROOT / ".dockerignore").read_text().splitlines()
    said = [str(value) for service in SERVICES.values() for value in service.get("environment", {}).values()]
    assert not [value for value in said if "://" in value and ":" in value.split("://")[1].split("@")[0]]


def test_every_container_has_only_the_rights_it_needs() -> None:
    for name, service in SERVICES.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service.get("privileged"), name


def test_the_viewer_has_a_token_and_changes_nothing() -> None:
    viewer = SERVICES["viewer"]
    assert "0.0.0.0" in viewer["command"]  # noqa: S104 - on such an address, `turnwise view` needs a token
    assert viewer["ports"] == ["127.0.0.1:${TURNWISE_VIEWER_PORT:-8600}:8600"]
    assert (viewer["secrets"], viewer["read_only"], viewer["volumes"]) == (["pgpass"], True, ["runs:/turnwise/runs:ro"])


def test_the_viewer_of_compose_is_healthy_once_it_answers(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path)
    command = [sys.executable, "-m", "turnwise", "view", "--store", store, "--host", "0.0.0.0", "--port", "0"]  # noqa: S104
    check = SERVICES["viewer"]["healthcheck"]["test"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = re.findall(r":(\d+)/runs\?token=", process.stdout.readline())[0]
        codes = [
            subprocess.run([sys.executable, "-c", check[-1].replace("8600", at)], capture_output=True).returncode
            for at in (port, "1")
        ]
    finally:
        process.kill()
        process.communicate()
    assert codes == [0, 1]


@pytest.mark.skipif(os.geteuid() != 0, reason="`make up` refuses other users first")
@pytest.mark.parametrize("variable", ["TURNWISE_DATABASE_PORT", "TURNWISE_VIEWER_PORT"])
def test_a_taken_port_names_its_variable_before_anything_is_written(variable: str, tmp_path: Path) -> None:
    (tmp_path / "tools/compose").mkdir(parents=True)
    script = shutil.copy(ROOT / "tools/compose/up.sh", tmp_path / "tools/compose")
    ports = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    free, taken = (str(one.getsockname()[1]) for one in ports)
    ports[0].close()
    chosen = {"TURNWISE_DATABASE_PORT": free, "TURNWISE_VIEWER_PORT": free, variable: taken}
    for kept in (False, True):
        written = "".join(f"{name}={port}\n" for name, port in chosen.items()) * kept
        (tmp_path / ".env").write_text(written)
        environment = {"PATH": os.environ["PATH"]} | ({} if kept else chosen)
        done = subprocess.run(["bash", script], capture_output=True, text=True, env=environment)
        assert (done.returncode, (tmp_path / ".env").read_text()) == (1, written)
        assert f"port {taken} of 127.0.0.1" in done.stderr
        assert f"{variable}=PORT make up" in done.stderr
    ports[1].close()


def test_every_package_of_the_lock_but_torch_has_a_hash() -> None:
    lock = re.sub(r"\\\n", "", (ROOT / "requirements.lock").read_text())
    bare = [line.split("==")[0] for line in lock.splitlines() if re.match(r"\w", line) and "--hash=" not in line]
    assert bare == ["torch"], "`make install` and `make up` ask pip for the others by hash"
