"""What is said about ACLs: there are none, since nothing asks them. Kafka without an authorizer says the same."""

from typing import Final

from ottla.model.error_code import ErrorCode

SECURITY_DISABLED: Final = ErrorCode.SECURITY_DISABLED
NO_AUTHORIZER: Final = "No Authorizer is configured."
"""Kafka's own words: its tools show them, and people look for them."""
