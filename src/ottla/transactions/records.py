"""What a transaction coordinator writes to `__transaction_state`: a transactional id as it is now."""

from msgspec import Struct

from ottla.transactions.transaction import Transaction


class TransactionRecord(Struct, frozen=True):
    """The transaction of a transactional id changed, or the id is forgotten (None)."""

    transactional_id: str
    transaction: Transaction | None
