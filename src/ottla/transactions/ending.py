"""Whether a producer may end its transaction now (EndTxn).

A producer that got no answer asks again. With transactions V2 the first request has raised the epoch, which tells a
repeated request from one that was meant for the next transaction:

    said with epoch   state            it is
    e                 Ongoing at e     the first request
    e                 complete at e+1  the same, repeated: answered as before
    e                 complete at e    an abort of a transaction that has no partitions yet
    e                 prepared at e    the same, before the markers of the transaction before are written
    e                 complete at e+2  of a producer in whose place there is another

A transaction that we abort, for its time or for another producer that comes, is at e+1 too: its producer, which aborts
when it is refused, goes on from there. At 32,766 that leads to 32,767, which no client is given: to a next producer id
leads its own EndTxn alone.

Before V2 the epoch stays, and a request that was delayed into the next transaction cannot be told from one of it.
"""

from ottla.model.error_code import ErrorCode
from ottla.transactions.requests import EndTransaction
from ottla.transactions.transaction import EPOCH_BUMP_VERSION, EPOCH_MAX, NO_PRODUCER_ID, Transaction
from ottla.transactions.transaction_state import PREPARED, TransactionState

_S = TransactionState


def check_end(transaction: Transaction, request: EndTransaction) -> ErrorCode | None:
    """None: it is to be decided now. NONE: it was decided before, as the request wants it. Else why it may not be."""
    if request.client_version < EPOCH_BUMP_VERSION:
        return _check_v1(transaction, request)
    if transaction.is_followed_by(request.producer):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    producer_id, epoch = request.producer
    overflowed = (
        transaction.previous_producer_id == producer_id != transaction.producer_id
        and epoch == EPOCH_MAX - 1
        and transaction.producer_epoch == 0
    )
    if transaction.producer_id != producer_id and not overflowed:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    fenced = transaction.producer_epoch == EPOCH_MAX and transaction.next_producer_id == NO_PRODUCER_ID
    is_repeated = overflowed or (transaction.producer_epoch == epoch + 1 and not fenced)
    if transaction.state in PREPARED:
        if not is_repeated:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.CONCURRENT_TRANSACTIONS if _wants_the_same(transaction, request) else _INVALID
    if transaction.state in (_S.COMPLETE_COMMIT, _S.COMPLETE_ABORT) and is_repeated:
        return ErrorCode.NONE if _wants_the_same(transaction, request) else _INVALID
    if transaction.producer_epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    if transaction.state is _S.ONGOING or not request.commit:
        return None
    return _INVALID


_INVALID = ErrorCode.INVALID_TXN_STATE


def _check_v1(transaction: Transaction, request: EndTransaction) -> ErrorCode | None:
    if transaction.producer_id != request.producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.producer_epoch != request.producer.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if transaction.state is _S.ONGOING:
        return None
    if transaction.state is _S.EMPTY or not _wants_the_same(transaction, request):
        return _INVALID
    return ErrorCode.CONCURRENT_TRANSACTIONS if transaction.state in PREPARED else ErrorCode.NONE


def _wants_the_same(transaction: Transaction, request: EndTransaction) -> bool:
    """Whether a transaction that is decided was decided as the request wants it."""
    return request.commit == (transaction.state in (_S.PREPARE_COMMIT, _S.COMPLETE_COMMIT))
