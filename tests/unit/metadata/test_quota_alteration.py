import math

import pytest

from ottla.metadata.controller import quota_alteration
from ottla.metadata.controller.quota_alteration import QuotaAlteration, decide_quota_alteration
from ottla.metadata.image.delta import MetadataDelta, apply_records, image_from_snapshot, snapshot_records
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.records import decode_record, encode_record
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.quota_entity import quota_entity

IMAGE = MetadataImage("cluster")
ANNA = (("user", "anna"),)
ETL = (("client-id", "etl"),)
HOST = (("ip", "10.0.0.1"),)


def decide(*alterations, image=IMAGE):
    return decide_quota_alteration(image, [QuotaAlteration(list(parts), changes) for parts, changes in alterations])


def after(*alterations, image=IMAGE):
    decision = decide(*alterations, image=image)
    assert decision.result == [None] * len(alterations)
    return apply_records(image, [decode_record(encode_record(record)) for record in decision.records])[0]


def refusal(parts, *changes):
    decision = decide((parts, list(changes)))
    assert decision.records == ()
    (outcome,) = decision.result
    assert isinstance(outcome, ApiError)
    assert outcome.code is ErrorCode.INVALID_REQUEST
    return outcome.message


def test_quotas_are_set_changed_and_taken_back():
    image = after((ANNA, [("producer_byte_rate", 1024.0), ("request_percentage", 0.5)]))
    assert image.client_quotas == {ANNA: {"producer_byte_rate": 1024.0, "request_percentage": 0.5}}
    image = after((ANNA, [("producer_byte_rate", 5.0), ("request_percentage", None)]), image=image)
    assert image.client_quotas == {ANNA: {"producer_byte_rate": 5.0}}
    assert after((ANNA, [("producer_byte_rate", None)]), image=image).client_quotas == {}


def test_both_parts_and_defaults_and_addresses_are_entities():
    both = (("user", "anna"), ("client-id", None))
    image = after((both, [("consumer_byte_rate", 7.0)]), ((("ip", None),), [("connection_creation_rate", 9.0)]))
    assert image.client_quotas == {
        (("client-id", None), ("user", "anna")): {"consumer_byte_rate": 7.0},
        (("ip", None),): {"connection_creation_rate": 9.0},
    }


def test_what_holds_already_makes_no_record():
    image = after((ANNA, [("producer_byte_rate", 1.0)]))
    assert decide((ANNA, [("producer_byte_rate", 1.0), ("consumer_byte_rate", None)]), image=image).records == ()


def test_quotas_outlive_a_snapshot():
    image = after((ANNA, [("producer_byte_rate", 1.5e9)]), (ETL, [("controller_mutation_rate", 0.1)]))
    assert image_from_snapshot("cluster", snapshot_records(image), 1).client_quotas == image.client_quotas


def test_a_delta_says_whether_quotas_changed():
    delta = MetadataDelta(IMAGE)
    assert not delta.has_changed_quotas
    delta.replay(decide((ANNA, [("producer_byte_rate", 1.0)])).records)
    assert delta.has_changed_quotas


@pytest.mark.parametrize(
    ("parts", "what"),
    [
        ((), "needs a user"),
        ((("host", "a"),), "Unhandled client quota entity type: host"),
        ((("user", ""),), "an empty user"),
        ((("user", "a"), ("user", "b")), "each type once"),
        ((("user", "a"), ("ip", "10.0.0.1")), "should not be combined with a user"),
        ((("ip", "localhost"),), "localhost is not a valid IP"),
        ((("user", "u" * 256),), "255 bytes at most"),
    ],
)
def test_an_entity_that_cannot_be_is_refused(parts, what):
    assert what in refusal(parts, ("producer_byte_rate", 1.0))


@pytest.mark.parametrize(
    ("parts", "change", "what"),
    [
        (ANNA, ("no.such", 1.0), "for user anna"),
        (ANNA, ("connection_creation_rate", 1.0), "for user anna"),
        (HOST, ("producer_byte_rate", 1.0), "there are connection_creation_rate"),
        (ANNA, ("producer_byte_rate", 0.0), "greater than 0"),
        (ANNA, ("producer_byte_rate", -1.0), "greater than 0"),
        (ANNA, ("request_percentage", math.nan), "greater than 0"),
        (ANNA, ("request_percentage", math.inf), "greater than 0"),
        (ANNA, ("producer_byte_rate", 1.5), "a whole number"),
        (ANNA, ("producer_byte_rate", 1e19), "a whole number"),
        (HOST, ("connection_creation_rate", 2.0**31), "a whole number of 32 bits"),
    ],
)
def test_a_quota_that_cannot_be_is_refused(parts, change, what):
    assert what in refusal(parts, change)


def test_of_an_entity_all_is_done_or_nothing_and_others_are_not_disturbed():
    decision = decide((ANNA, [("producer_byte_rate", 1.0), ("no.such", 1.0)]), (ETL, [("producer_byte_rate", 2.0)]))
    assert [outcome is None for outcome in decision.result] == [False, True]
    assert [record.entity for record in decision.records] == [ETL]


def test_an_entity_or_a_key_that_is_given_twice_is_refused():
    assert "more than once" in refusal(ANNA, ("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0))
    twice = (("ip", "::1"),), [("connection_creation_rate", 1.0)]
    other = (("ip", "0:0::1"),), [("connection_creation_rate", 2.0)]
    decision = decide(twice, other)
    assert decision.records == ()
    assert all(isinstance(outcome, ApiError) for outcome in decision.result)


def test_entities_are_bounded(monkeypatch):
    monkeypatch.setattr(quota_alteration, "ENTITIES_MAX", 1)
    decision = decide((ANNA, [("producer_byte_rate", 1.0)]), (ETL, [("producer_byte_rate", 1.0)]))
    assert decision.result[0] is None
    assert decision.result[1].code is ErrorCode.POLICY_VIOLATION
    image = after((ANNA, [("producer_byte_rate", 1.0)]))
    assert after((ANNA, [("producer_byte_rate", 2.0)]), image=image).client_quotas == {
        ANNA: {"producer_byte_rate": 2.0}
    }


def test_an_entity_is_the_same_in_whatever_order_its_parts_come():
    assert quota_entity([("user", "a"), ("client-id", "b")]) == quota_entity([("client-id", "b"), ("user", "a")])
