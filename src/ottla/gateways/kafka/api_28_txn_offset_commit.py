"""TxnOffsetCommit (key 28), versions 0 to 5.

2 leader epoch (KIP-320); 3 flexible, member and generation (KIP-447); 4 TRANSACTION_ABORTABLE; 5 for transactions V2:
the offsets become part of the transaction without AddOffsetsToTxn (KIP-890).
"""

from ottla.broker.committed_offsets import ErrorsByTopic
from ottla.broker.transaction_gate import TransactionSupport
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.offset_commits import answered, offsets_of
from ottla.groups.requests import Committer
from ottla.model.producer_identity import ProducerIdentity
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def handle(ctx: RequestContext, request: TxnOffsetCommitRequest) -> None:
    """Store offsets that hold when the transaction is committed."""
    committer = Committer(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        knows_group_id_not_found=False,
        is_transactional=True,
    )
    topics = [(topic.name, offsets_of(topic)) for topic in request.topics]

    def on_outcome(errors: ErrorsByTopic) -> None:
        answers = answered(request.topics, errors, TxnOffsetCommitResponsePartition)
        ctx.respond(
            TxnOffsetCommitResponse(
                topics=tuple(
                    TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions)
                    for topic, partitions in answers
                )
            )
        )

    ctx.broker.committed_offsets.commit_in_transaction(
        ctx.principal,
        request.transactional_id,
        ProducerIdentity(request.producer_id, request.producer_epoch),
        committer,
        topics,
        TransactionSupport.of_txn_offset_commit(ctx.api_version),
        on_outcome,
    )


API = Api(ApiKey.TXN_OFFSET_COMMIT, 0, 5, handle)
