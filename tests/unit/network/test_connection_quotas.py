from ottla.network import connection_quotas
from ottla.network.connection_quotas import ConnectionQuotas
from ottla.runtime.sampled_rate import Windows


def test_an_address_may_have_another_limit_than_the_rest():
    quotas = ConnectionQuotas(100, 1, {"10.0.0.1": 2, "10.0.0.2": 0})
    assert [quotas.admit("10.0.0.1") for _ in range(2)] == [None, None]
    assert quotas.admit("10.0.0.1") == "10.0.0.1 has 2 connections, and max.connections.per.ip.overrides allows 2"
    assert quotas.admit("10.0.0.2") == "10.0.0.2 has 0 connections, and max.connections.per.ip.overrides allows 0"
    assert quotas.admit("10.0.0.3") is None
    assert quotas.admit("10.0.0.3") == "10.0.0.3 has 1 connections, and max.connections.per.ip allows 1"
    assert quotas.open_count == 3


def test_limits_that_are_lowered_refuse_new_connections_until_enough_have_gone():
    quotas = ConnectionQuotas(100, 100)
    for _ in range(3):
        assert quotas.admit("a") is None
    quotas.max_connections = 2
    assert quotas.admit("b") == "there are 3 connections, and max.connections allows 2"
    quotas.release("a")
    assert quotas.admit("b") is not None
    quotas.release("a")
    assert quotas.admit("b") is None


def test_an_address_that_comes_too_often_is_refused_for_as_long_as_it_is_too_early():
    quotas = ConnectionQuotas(100, 100, windows=Windows(2, 1_000))
    assert quotas.refusal_ms("a", 0) == 0
    quotas.creation_rate_of = {"a": 2.0, "b": 5.0}.get
    assert [quotas.refusal_ms("a", 0) for _ in range(3)] == [0, 0, 500]
    assert quotas.refusal_ms("a", 0) == 500, "who was refused does not count"
    assert [quotas.refusal_ms("b", 0) for _ in range(5)] == [0] * 5
    assert [quotas.refusal_ms("c", 0) for _ in range(99)] == [0] * 99
    assert quotas.refusal_ms("a", 2_000) == 0


def test_nobody_is_refused_for_longer_than_one_window():
    quotas = ConnectionQuotas(100, 100, windows=Windows(2, 1_000))
    quotas.creation_rate_of = {"a": 0.01}.get
    assert quotas.refusal_ms("a", 0) == 1_000


def test_addresses_that_are_known_are_bounded(monkeypatch):
    monkeypatch.setattr(connection_quotas, "ADDRESSES_MAX", 2)
    quotas = ConnectionQuotas(100, 100, windows=Windows(2, 1_000))
    quotas.creation_rate_of = lambda ip: 1.0
    assert quotas.refusal_ms("a", 0) == 0
    assert quotas.refusal_ms("a", 0) > 0
    for other in "bc":
        assert quotas.refusal_ms(other, 0) == 0
    assert quotas.refusal_ms("a", 0) == 0


def test_connections_that_come_too_fast_have_the_next_wait():
    quotas = ConnectionQuotas(100, 100, windows=Windows(2, 1_000))
    assert [quotas.accept_pause_ms(0) for _ in range(99)] == [0] * 99
    quotas.creation_rate_max = 2
    assert [quotas.accept_pause_ms(0) for _ in range(3)] == [0, 0, 500]
    assert quotas.accept_pause_ms(2_000) == 0
