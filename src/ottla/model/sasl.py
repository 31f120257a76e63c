"""The mechanisms of SASL by which a client proves who it is, by their registered names."""

from typing import Final

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"

TOKEN_AUTH: Final = "tokenauth"  # noqa: S105 (the name of an extension)
"""What a client of SCRAM says beside its name, with `true`, where that is the id of a delegation token (KIP-48)."""

SASL_MECHANISMS: Final = (SCRAM_SHA_512, SCRAM_SHA_256, PLAIN, OAUTHBEARER)
"""Those that are served."""
