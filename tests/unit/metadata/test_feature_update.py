from types import MappingProxyType

import pytest
from msgspec.structs import replace

from ottla.metadata.controller import feature_update
from ottla.metadata.controller.feature_update import FeatureUpdate, UpgradeType, decide_feature_update
from ottla.metadata.features import Feature
from ottla.metadata.image import image as image_module
from ottla.metadata.image.delta import apply_records, image_from_snapshot, snapshot_records
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.records import FeatureLevelRecord, decode_record, encode_record
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError

UP, SAFE, UNSAFE = UpgradeType
IMAGE = MetadataImage("cluster")


@pytest.fixture(autouse=True)
def features(monkeypatch):
    """One that is served in the levels 0 to 2, one from 3 on, and one that is not served."""
    table = MappingProxyType(
        {"a": Feature("a", 0, 2), "b": Feature("b", 3, 5), "not.served": Feature("not.served", 0, 0)}
    )
    monkeypatch.setattr(feature_update, "FEATURES", table)
    monkeypatch.setattr(image_module, "FEATURES", table)


def after(image, *updates):
    decision = decide_feature_update(image, updates)
    return apply_records(image, [decode_record(encode_record(record)) for record in decision.records])[0]


def test_the_newest_level_holds_until_one_is_finalized():
    assert (IMAGE.feature_level("a"), IMAGE.feature_level("b"), IMAGE.feature_level("not.served")) == (2, 5, 0)
    image = after(IMAGE, FeatureUpdate("a", 1, SAFE), FeatureUpdate("b", 3, UNSAFE))
    assert (image.feature_level("a"), image.feature_level("b")) == (1, 3)
    image = after(image, FeatureUpdate("a", 0, SAFE))
    assert image.feature_level("a") == 0
    assert after(image, FeatureUpdate("a", 2, UP)).feature_level("a") == 2


def test_what_was_finalized_outlives_a_snapshot():
    image = after(IMAGE, FeatureUpdate("a", 1, SAFE))
    assert image_from_snapshot("cluster", snapshot_records(image), 1).feature_level("a") == 1


def test_a_level_that_a_later_release_finalized_is_not_used_beyond_what_is_served():
    image, _ = apply_records(IMAGE, [FeatureLevelRecord("a", 9)])
    assert image.feature_level("a") == 2


@pytest.mark.parametrize(
    ("update", "what"),
    [
        (FeatureUpdate("unknown", 1), "does not support the feature"),
        (FeatureUpdate("not.served", 0, SAFE), "does not support the feature"),
        (FeatureUpdate("a", 3), "only supports versions 0-2"),
        (FeatureUpdate("a", -1, SAFE), "only supports versions 0-2"),
        (FeatureUpdate("b", 0, SAFE), "only supports versions 3-5"),
        (FeatureUpdate("a", 1), "can't downgrade it without setting the upgrade type"),
        (FeatureUpdate("a", 1, 0), "no upgrade type 0"),
        (FeatureUpdate("a", 1, 4), "no upgrade type 4"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason_and_nothing_is_updated(update, what):
    with pytest.raises(ApiError, match=what) as refused:
        decide_feature_update(IMAGE, [FeatureUpdate("b", 4, SAFE), update])
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION


def test_a_downgrade_leads_to_no_higher_level():
    image = replace(IMAGE, feature_levels={"a": 1})
    with pytest.raises(ApiError, match="leads to no higher level"):
        decide_feature_update(image, [FeatureUpdate("a", 2, SAFE)])


def test_the_present_level_may_be_asked_for_in_every_way():
    for upgrade_type in UpgradeType:
        assert after(IMAGE, FeatureUpdate("a", 2, upgrade_type)).feature_level("a") == 2
