"""AlterUserScramCredentials (key 51), version 0 (KIP-554).

The client salts the password and sends what comes of that; the broker makes the keys of it, and keeps only these.
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.metadata.controller.scram_alteration import ScramAlteration
from ottla.model.errors import ApiError
from ottla.model.scram_credential import SCRAM_TYPES, ScramCredential
from ottla.native.errors import MessageError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)
from ottla.security.scram import MECHANISMS, keys_of


def decode(version: int, frame: memoryview, offset: int) -> AlterUserScramCredentialsRequest:
    """A request, also one of librdkafka, which ends it with a second empty list of tags. Kafka drops what is left over
    at the end.
    """
    try:
        return AlterUserScramCredentialsRequest.decode(version, frame, offset)
    except MessageError:
        if len(frame) <= offset or frame[-1] != 0:
            raise
        return AlterUserScramCredentialsRequest.decode(version, frame[:-1], offset)


async def handle(ctx: RequestContext, request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    """Set and remove credentials; of each user all that is asked or none."""
    alterations = [
        *(ScramAlteration(each.name, each.mechanism, None) for each in request.deletions),
        *(ScramAlteration(each.name, each.mechanism, _credential(each)) for each in request.upsertions),
    ]
    outcomes: dict[str, ApiError | None]
    try:
        outcomes = await ctx.broker.scram_users.alter(ctx.principal, alterations)
    except ApiError as error:
        outcomes = dict.fromkeys((each.user for each in alterations), error)
    return AlterUserScramCredentialsResponse(
        results=tuple(
            AlterUserScramCredentialsResult(
                user, 0 if outcome is None else outcome.code, None if outcome is None else outcome.message
            )
            for user, outcome in outcomes.items()
        )
    )


def _credential(upsertion: ScramCredentialUpsertion) -> ScramCredential:
    name = SCRAM_TYPES.get(upsertion.mechanism)
    if name is None:  # refused when it is decided
        return ScramCredential(upsertion.salt, upsertion.iterations, b"", b"")
    keys = keys_of(MECHANISMS[name], bytes(upsertion.salted_password))
    return ScramCredential(bytes(upsertion.salt), upsertion.iterations, keys.stored_key, keys.server_key)


API = Api(
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, handle, is_async=True, is_decided_by_controller=True, decode=decode
)
