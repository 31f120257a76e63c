"""What the settings of a broker make of NSQ's limits."""

import pytest

from ottla.gateways.nsq.limits import NsqLimits
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.definition import InvalidSettingError


@pytest.mark.parametrize(
    ("required", "policy", "is_required", "is_http_open"),
    [
        ("false", "", False, True),
        ("true", "", True, False),
        ("tcp-https", "", True, True),
        ("false", "require-verify", True, False),
        ("true", "require-verify", True, False),
        ("tcp-https", "require-verify", True, True),
    ],
)
def test_tls_is_required_where_nsqd_requires_it(
    required: str, policy: str, is_required: bool, is_http_open: bool
) -> None:
    settings = BrokerSettings({"nsq.tls.required": required, "nsq.tls.client.auth.policy": policy})
    limits = NsqLimits.from_settings(settings)
    assert (limits.is_tls_required, limits.is_http_open) == (is_required, is_http_open)


def test_a_certificate_that_nobody_verifies_is_not_asked_for() -> None:
    with pytest.raises(InvalidSettingError, match=r"nsq\.tls\.client\.auth\.policy"):
        BrokerSettings({"nsq.tls.client.auth.policy": "require"})
