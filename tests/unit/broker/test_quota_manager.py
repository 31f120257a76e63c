"""Who is bound to what, by the order of entities that Kafka documents, and for how long he is to be quiet."""

import pytest

from ottla.broker import quota_limits
from ottla.broker.quota_limits import Limit, QuotaLimits
from ottla.broker.quota_manager import NO_MUTATION_QUOTA, ClientQuotaManager
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.runtime.clock import ManualClock
from ottla.runtime.sampled_rate import Windows

ANNA, BERT = Principal("User", "anna"), Principal("User", "bert")
KEY = "producer_byte_rate"

ORDER = [
    # entity, with whom its bound is shared
    ((("client-id", "etl"), ("user", "anna")), ("anna", "etl")),
    ((("client-id", None), ("user", "anna")), ("anna", "etl")),
    ((("user", "anna"),), ("anna", None)),
    ((("client-id", "etl"), ("user", None)), ("anna", "etl")),
    ((("client-id", None), ("user", None)), ("anna", "etl")),
    ((("user", None),), ("anna", None)),
    ((("client-id", "etl"),), (None, "etl")),
    ((("client-id", None),), (None, "etl")),
]


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_most_special_entity_says_what_holds_and_who_shares_it(first):
    quotas = {entity: {KEY: float(number + 1)} for number, (entity, _) in enumerate(ORDER) if number >= first}
    assert QuotaLimits(quotas, KEY).find("anna", "etl") == Limit(first + 1, ORDER[first][1])


def test_an_entity_without_the_key_is_passed_over():
    quotas = {ORDER[0][0]: {"consumer_byte_rate": 1.0}, ORDER[7][0]: {KEY: 2.0}}
    assert QuotaLimits(quotas, KEY).find("anna", "etl") == Limit(2.0, (None, "etl"))
    assert QuotaLimits(quotas, "request_percentage").find("anna", "etl") is None


def test_an_address_has_its_own_bound_or_that_of_all():
    limits = QuotaLimits({(("ip", "::1"),): {"k": 1.0}, (("ip", None),): {"k": 2.0}}, "k")
    assert (limits.of_ip("::1"), limits.of_ip("10.0.0.1")) == (1.0, 2.0)
    assert QuotaLimits({(("ip", "::1"),): {"k": 1.0}}, "k").of_ip("10.0.0.1") is None


class Quotas:
    """A manager of the defaults, whose clock is moved by hand."""

    def __init__(self, quotas, clients_max=100):
        self.clock = ManualClock(1_000_000)
        windows = Windows(11, 1_000)
        self.manager = ClientQuotaManager(self.clock, windows, windows, clients_max)
        self.manager.configure(quotas)

    def produce(self, size, who=ANNA, client="etl"):
        return self.manager.produced(who, client, size)


def test_without_quotas_there_is_nothing_to_ask():
    assert not Quotas({}).manager.has_limits
    assert not Quotas({(("ip", None),): {"connection_creation_rate": 1.0}}).manager.has_limits
    assert Quotas({(("user", "x"),): {"request_percentage": 1.0}}).manager.has_limits


def test_who_has_no_quota_is_never_quiet():
    quotas = Quotas({(("user", "bert"),): {KEY: 1.0}})
    assert quotas.produce(10**9) == 0
    assert quotas.produce(10**9, BERT) > 0


def test_a_client_that_keeps_to_its_times_moves_what_its_quota_allows():
    quotas = Quotas({(("client-id", "etl"),): {KEY: 1_000.0}})
    begun_ms, moved = quotas.clock.monotonic_ms(), 0
    for _ in range(500):
        throttle_ms = quotas.produce(700)
        moved += 700
        quotas.clock.advance(throttle_ms)
    seconds = (quotas.clock.monotonic_ms() - begun_ms) / 1_000
    assert moved / seconds == pytest.approx(1_000, rel=0.05)


def test_a_user_shares_his_quota_among_his_clients_and_a_default_is_for_each():
    shared = Quotas({(("user", "anna"),): {KEY: 100.0}})
    assert shared.produce(1_000, client="a") == 0
    assert shared.produce(1_000, client="b") > 0
    each = Quotas({(("client-id", None),): {KEY: 100.0}})
    assert each.produce(1_000, client="a") == 0
    assert each.produce(1_000, client="b") == 0
    assert each.produce(1, client="a") > 0
    assert each.produce(1, BERT, client="a") > 0


def test_a_client_without_a_name_has_a_name_that_is_empty():
    quotas = Quotas({(("client-id", None),): {KEY: 1.0}})
    assert quotas.produce(11, client=None) > 0
    assert quotas.produce(0, client="") > 0


def test_another_bound_holds_at_once_for_what_was_done_before():
    quotas = Quotas({(("user", "anna"),): {KEY: 1_000.0}})
    assert quotas.produce(10_000) == 0
    quotas.manager.configure({(("user", "anna"),): {KEY: 100.0}})
    assert quotas.produce(0) > 0
    quotas.manager.configure({})
    assert quotas.produce(10**9) == 0


def test_so_many_are_known_and_of_more_the_longest_quiet_is_forgotten():
    quotas = Quotas({(("client-id", None),): {KEY: 1.0}}, clients_max=2)
    assert quotas.produce(100, client="a") > 0
    assert quotas.produce(100, client="b") > 0
    assert quotas.produce(0, client="a") > 0
    assert quotas.produce(0, client="c") == 0
    assert quotas.produce(0, client="a") > 0
    assert quotas.produce(0, client="b") == 0


def fetched(quotas, size):
    verdict = quotas.manager.fetched(ANNA, "etl", size)
    return verdict.throttle_ms, verdict.is_served


def test_a_reader_over_his_quota_gets_nothing_and_nothing_is_counted():
    quotas = Quotas({(("user", "anna"),): {"consumer_byte_rate": 100.0}})
    assert fetched(quotas, 1_000) == (0, True)
    throttle_ms, is_served = fetched(quotas, 1_000)
    assert (throttle_ms, is_served) == (10_000, False)
    assert fetched(quotas, 1_000) == (10_000, False)
    quotas.clock.advance(11_000)
    assert fetched(quotas, 1_000) == (0, True)


def test_a_batch_that_is_larger_than_all_windows_allow_is_given_to_who_read_nothing_lately():
    quotas = Quotas({(("user", "anna"),): {"consumer_byte_rate": 100.0}})
    assert quotas.manager.fetch_bytes_max(ANNA, "etl") == 1_000
    assert fetched(quotas, 5_000) == (40_000, True)
    assert fetched(quotas, 1)[1] is False
    quotas.clock.advance(40_000)
    assert fetched(quotas, 5_000) == (40_000, True)


def test_who_has_no_quota_reads_as_much_as_he_wants():
    quotas = Quotas({(("user", "bert"),): {"consumer_byte_rate": 100.0}})
    assert quotas.manager.fetch_bytes_max(ANNA, "etl") is None
    assert fetched(quotas, 10**9) == (0, True)


def test_time_is_counted_in_percent_of_a_thread_and_one_window_is_the_most():
    quotas = Quotas({(("user", "anna"),): {"request_percentage": 10.0}})
    second = 1_000_000_000
    assert quotas.manager.handled(ANNA, "etl", second) == 0
    assert quotas.manager.handled(ANNA, "etl", second // 1_000) == 10
    assert quotas.manager.handled(ANNA, "etl", 100 * second) == 1_000


def test_who_changes_too_much_is_refused_the_next_change():
    quotas = Quotas({(("user", "anna"),): {"controller_mutation_rate": 1.0}})
    changes = quotas.manager.changes(ANNA, "etl", is_strict=True)
    changes.take(13)
    assert changes.throttle_ms == 0
    with pytest.raises(ApiError) as refused:
        changes.take(1)
    assert (refused.value.code, changes.throttle_ms) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 2_000)
    quotas.clock.advance(2_000)
    quotas.manager.changes(ANNA, "etl", is_strict=True).take(1)


def test_an_older_client_is_done_its_will_and_told_to_be_quiet():
    quotas = Quotas({(("user", "anna"),): {"controller_mutation_rate": 1.0}})
    changes = quotas.manager.changes(ANNA, "etl", is_strict=False)
    changes.take(13)
    assert changes.throttle_ms == 2_000
    changes.take(5)
    assert changes.throttle_ms == 7_000
    changes.give_back(18)
    assert changes.throttle_ms == 0


def test_who_has_no_quota_changes_as_much_as_he_wants():
    changes = Quotas({}).manager.changes(ANNA, "etl", is_strict=True)
    changes.take(10**9)
    changes.take(1)
    assert (changes.throttle_ms, NO_MUTATION_QUOTA.throttle_ms) == (0, 0)


def test_of_a_name_without_end_its_beginning_counts():
    quotas = Quotas({(("client-id", None),): {KEY: 1.0}})
    assert quotas.produce(100, client="c" * 255 + "a") > 0
    assert quotas.produce(0, client="c" * 255 + "b") > 0


def test_what_was_found_is_kept_for_so_many_clients(monkeypatch):
    monkeypatch.setattr(quota_limits, "FOUND_MAX", 3)
    limits = QuotaLimits({(("client-id", "c1"),): {KEY: 1.0}, (("user", "anna"),): {KEY: 2.0}}, KEY)
    for _ in range(3):
        found = [limits.find(user, f"c{number}") for user in ("anna", "bert") for number in range(5)]
        assert [limit and limit.bound for limit in found] == [2.0] * 5 + [None, 1.0, None, None, None]
        assert len(limits._found) <= 3
