"""An identity provider for tests: a real HTTP server that publishes keys and gives tokens to whoever has a secret."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from tests.tokens import TokenIssuer, jwks


class IdentityProvider:
    """Serves /keys and /token while it is entered; with `certificate`, a PEM file, by https."""

    def __init__(self, issuer: TokenIssuer | None = None, *, certificate: Path | None = None) -> None:
        self.issuer = issuer or TokenIssuer.rsa("of-the-provider")
        self.secrets = {"alice": "s3cret"}
        self.claims: dict[str, Any] = {}
        """What its tokens say besides."""
        self.failures: list[int] = []
        """The statuses of the next answers to who asks for a token."""
        self.asked: list[dict[str, Any]] = []
        """What it was asked for tokens with."""
        self.keys_read = threading.Event()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.keys_read.set()
                self.answer(200, jwks(provider.issuer))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self.answer(*provider.token_for(self.headers["Authorization"], body))

            def answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if certificate is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def token_for(self, authorization: str, body: str) -> tuple[int, bytes]:
        """The answer to who asks."""
        client, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        self.asked.append({"client": client, "secret": secret, **{k: v[0] for k, v in parse_qs(body).items()}})
        if self.failures:
            return self.failures.pop(0), b"busy"
        if self.secrets.get(client) != secret:
            return 401, json.dumps({"error": "invalid_client", "error_description": "who\nare you?"}).encode()
        return 200, json.dumps({"access_token": self.issuer.token(client, **self.claims), "expires_in": 3600}).encode()

    def __enter__(self) -> IdentityProvider:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
