"""Commands of keys that lack something change nothing before they have it."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from ottla.gateways.redis.key_commands import delete
from ottla.gateways.redis.keyspace import LoadingError


def test_no_key_is_deleted_before_all_are_found() -> None:
    session: Any = Mock(now_ms=5)
    session.find.side_effect = ["the stream of a", LoadingError]
    with pytest.raises(LoadingError):
        delete(session, [b"DEL", b"a", b"b"])
    session.keyspace.delete.assert_not_called()
    session.find.side_effect = ["the stream of a", None, "the stream of b"]
    assert delete(session, [b"DEL", b"a", b"absent", b"b", b"a"]) == 2
    assert [call.args[0] for call in session.keyspace.delete.call_args_list] == ["the stream of a", "the stream of b"]
