"""The certificates that the client of chat APIs verifies a server by."""

import asyncio
import ssl
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from turnwise.agents.errors import EngineFailed
from turnwise.agents.players.chat_api import client
from turnwise.agents.players.chat_api.client import ChatApi
from turnwise.errors import TurnwiseError
from turnwise.tests.agents.chat_api.chats import FIRST


@pytest.mark.parametrize("proxy", ["", "http://127.0.0.1:9"])
@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("SSL_CERT_FILE", "gone.pem", "is no file"),
        ("SSL_CERT_FILE", ".", "is no file"),
        ("SSL_CERT_FILE", "text.pem", "cannot be read as certificates"),
        ("SSL_CERT_DIR", "gone", "is no folder"),
    ],
)
def test_certificates_that_cannot_be_read_are_named_by_their_variable(
    variable: str, value: str, reason: str, proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text.pem").write_text("no certificate")
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    monkeypatch.setenv(variable, str(tmp_path / value))
    with pytest.raises(TurnwiseError, match=f"of `{variable}` {reason}.*Correct the variable, or unset it") as caught:
        ChatApi("https://models.example/v1", "the policy", 5)
    assert "PROXY" not in str(caught.value)
    asyncio.run(ChatApi("http://localhost:8000/v1", "the policy", 5).close())
    if variable == "SSL_CERT_DIR":  # httpx reads the folders only for TLS, and the file always
        asyncio.run(ChatApi("http://models.example/v1", "the policy", 5).close())
    else:
        with pytest.raises(TurnwiseError, match=f"of `{variable}` {reason}"):
            ChatApi("http://models.example/v1", "the policy", 5)


def self_signed(folder: Path) -> ssl.SSLContext:
    """Return the TLS of a server at 127.0.0.1 whose certificate no authority signed."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).add_extension(address, critical=True)
    made = made.public_key(key.public_key()).serial_number(1)
    made = made.not_valid_before(datetime(2026, 1, 1, tzinfo=UTC)).not_valid_after(datetime(2126, 1, 1, tzinfo=UTC))
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, *plain)
    pem += made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    (folder / "server.pem").write_bytes(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return context


def test_the_certificate_of_a_server_on_this_machine_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "FIRST_PAUSE_S", 0.01)

    async def main() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=self_signed(tmp_path))
        api = ChatApi(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", "the policy", 5)
        try:
            await api.text(FIRST)
        finally:
            await api.close()
            server.close()

    with pytest.raises(EngineFailed, match=r"CERTIFICATE_VERIFY_FAILED.*self-signed"):
        asyncio.run(main())
