"""What is said about delegation tokens (KIP-48): nobody gets one by a connection that proved nothing, as from Kafka.

Kafka asks first how the client came, and only then whether there is a secret to make tokens with: whoever came by a
PLAINTEXT listener is told DELEGATION_TOKEN_REQUEST_NOT_ALLOWED either way. There are no other listeners here yet.
"""

from typing import Final

from ottla.model.error_code import ErrorCode

NOT_ALLOWED: Final = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
NO_TIME: Final = -1
"""A time of a token that there is not."""
