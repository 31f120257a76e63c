"""How the HTTP APIs of NSQ say that a request failed: `{"message": CODE}`."""

from collections.abc import Mapping
from typing import Final

from ottla.network.http_connection import HttpRequest, HttpResponse, json_response

HEADERS: Final = {"X-NSQ-Content-Type": "nsq; version=1.0"}


class HttpError(Exception):
    """A request that fails: a status and NSQ's word for it."""

    def __init__(self, status: int, code: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.headers = headers or {}

    def response(self) -> HttpResponse:
        """What is answered."""
        return json_response({"message": self.code}, self.status, HEADERS | dict(self.headers))


def refuse(status: int, why: str, path: str) -> HttpResponse:
    """The answer to a request that could not be read."""
    too_big = "MSG_TOO_BIG" if path == "/pub" else "BODY_TOO_BIG"
    codes = {403: "ORIGIN_NOT_ALLOWED", 408: "REQUEST_TIMEOUT", 413: too_big}
    return HttpError(status, codes.get(status, "BAD_REQUEST")).response()


def given(request: HttpRequest, name: str) -> str:
    """A parameter that has to be there. Raises HttpError."""
    value = request.query.get(name)
    if value is None:
        raise HttpError(400, f"MISSING_ARG_{name.upper()}")
    return value
