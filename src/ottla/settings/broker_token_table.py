"""The broker settings of delegation tokens (KIP-48)."""

from typing import Final

from ottla.settings.broker_setting import broker_setting as _setting
from ottla.settings.definition import Importance
from ottla.settings.validators import Range
from ottla.settings.value import LONG_MAX, SettingType

_LONG, _PASSWORD = SettingType.LONG, SettingType.PASSWORD
_MEDIUM, _LOW = Importance.MEDIUM, Importance.LOW

TOKEN_SETTINGS: Final = (
    _setting(
        "delegation.token.secret.key",
        _PASSWORD,
        None,
        None,
        _MEDIUM,
        "The key from which the secrets of delegation tokens follow, the same on all brokers. Without it there "
        "are none.",
    ),
    _setting(
        "delegation.token.max.lifetime.ms",
        _LONG,
        "604800000",
        Range(1, LONG_MAX),
        _MEDIUM,
        "How long a delegation token can be good however often it is renewed.",
    ),
    _setting(
        "delegation.token.expiry.time.ms",
        _LONG,
        "86400000",
        Range(1, LONG_MAX),
        _MEDIUM,
        "How long a delegation token is good before it has to be renewed.",
    ),
    _setting(
        "delegation.token.expiry.check.interval.ms",
        _LONG,
        "3600000",
        Range(1, LONG_MAX),
        _LOW,
        "How often delegation tokens that are over are removed.",
    ),
)
