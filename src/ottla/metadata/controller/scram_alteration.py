"""Decides about credentials of SCRAM (KIP-554): all that a request asks for one user, or nothing of it.

Errors, in Kafka's words: UNACCEPTABLE_CREDENTIAL, UNSUPPORTED_SASL_MECHANISM, RESOURCE_NOT_FOUND (a credential to
delete that there is not), DUPLICATE_RESOURCE. POLICY_VIOLATION says that there are as many users as may be.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ottla.metadata.controller.decision import Decision
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.records import ScramCredentialRecord
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.scram_credential import SCRAM_TYPES, ScramCredential

USERS_MAX: Final = 100_000
"""They are kept in the metadata."""
NAME_BYTES_MAX: Final = 255
ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
SALT_BYTES_MAX: Final = 256


class ScramAlteration(Struct, frozen=True):
    """A new credential of a user, or with None the end of it."""

    user: str
    mechanism: int
    credential: ScramCredential | None


def decide_scram_alteration(
    image: MetadataImage, alterations: Sequence[ScramAlteration]
) -> Decision[dict[str, ApiError | None]]:
    """Decide about each user; what came of it, by user, in the order in which the request names them first."""
    outcomes: dict[str, ApiError | None] = {}
    records: list[ScramCredentialRecord] = []
    occurrences = Counter((each.user, each.mechanism) for each in alterations)
    for each in alterations:
        error = outcomes.get(each.user) or _complaint(image, each, occurrences[each.user, each.mechanism])
        outcomes[each.user] = error
    count = len(image.scram_credentials)
    for each in alterations:
        if outcomes[each.user] is not None:
            continue
        if each.user not in image.scram_credentials and each.credential is not None:
            count += 1
            if count > USERS_MAX:
                outcomes[each.user] = ApiError(ErrorCode.POLICY_VIOLATION, f"there are {USERS_MAX} users already")
                continue
        records.append(ScramCredentialRecord(each.user, each.mechanism, each.credential))
    return Decision(tuple(records), outcomes)


def _complaint(image: MetadataImage, alteration: ScramAlteration, occurrences: int) -> ApiError | None:
    credential = alteration.credential
    if not alteration.user:
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if len(alteration.user.encode()) > NAME_BYTES_MAX:
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Username is longer than {NAME_BYTES_MAX} bytes")
    if alteration.mechanism not in SCRAM_TYPES:
        return ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if occurrences > 1:
        return ApiError(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
    if credential is None:
        if alteration.mechanism in image.scram_credentials.get(alteration.user, ()):
            return None
        return ApiError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    if credential.iterations < ITERATIONS_MIN:
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if credential.iterations > ITERATIONS_MAX:
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not credential.salt or len(credential.salt) > SALT_BYTES_MAX:
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Salt must have 1 to {SALT_BYTES_MAX} bytes")
    return None
