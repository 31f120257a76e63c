from ottla.network.connection_quotas import ConnectionQuotas


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
