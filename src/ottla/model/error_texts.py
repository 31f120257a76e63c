"""What an error code says, in a sentence, where a broker adds no text of its own.

Each has the words by which Kafka's clients name the error, since people and tools search for them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ottla.model.error_code import ErrorCode

ERROR_TEXTS: Final[Mapping[ErrorCode, str]] = MappingProxyType(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR: "the server had an unexpected error; its log says which",
        ErrorCode.NONE: "no error",
        ErrorCode.OFFSET_OUT_OF_RANGE: "the offset is not within the range of offsets that the partition has",
        ErrorCode.CORRUPT_MESSAGE: "the records failed the CRC checksum, or are otherwise corrupt",
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
            "this server does not host this topic-partition: it does not exist, or is new"
        ),
        ErrorCode.INVALID_FETCH_SIZE: "the fetch size is invalid",
        ErrorCode.LEADER_NOT_AVAILABLE: (
            "there is no leader for this topic-partition: it is being elected, or no replica of it is left"
        ),
        ErrorCode.NOT_LEADER_OR_FOLLOWER: "this broker is not the current leader or no replica of the partition",
        ErrorCode.REQUEST_TIMED_OUT: "the request timed out",
        ErrorCode.BROKER_NOT_AVAILABLE: "the broker is not available",
        ErrorCode.REPLICA_NOT_AVAILABLE: "the replica is not available",
        ErrorCode.MESSAGE_TOO_LARGE: (
            "the request has a message larger than the max message size, which is max.message.bytes of the topic"
        ),
        ErrorCode.STALE_CONTROLLER_EPOCH: "the controller moved to another broker",
        ErrorCode.OFFSET_METADATA_TOO_LARGE: "the metadata field of the offset request is too large",
        ErrorCode.NETWORK_EXCEPTION: "the server disconnected before a response was received",
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the coordinator is loading and can't process requests yet",
        ErrorCode.COORDINATOR_NOT_AVAILABLE: "the coordinator is not available",
        ErrorCode.NOT_COORDINATOR: "this is not the correct coordinator",
        ErrorCode.INVALID_TOPIC_EXCEPTION: "this is an invalid topic for the operation, or its name is",
        ErrorCode.RECORD_LIST_TOO_LARGE: "a message batch is larger than the configured segment size",
        ErrorCode.NOT_ENOUGH_REPLICAS: (
            "the records are rejected since there are fewer in-sync replicas than required (min.insync.replicas)"
        ),
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: (
            "the records are written to the log, but to fewer in-sync replicas than required"
        ),
        ErrorCode.INVALID_REQUIRED_ACKS: "the value for required acks is invalid",
        ErrorCode.ILLEGAL_GENERATION: "the group generation id is not valid: the group has rebalanced",
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
            "the group member's supported protocols are incompatible with those of existing members"
        ),
        ErrorCode.INVALID_GROUP_ID: "the group id is invalid",
        ErrorCode.UNKNOWN_MEMBER_ID: "the coordinator is not aware of this member",
        ErrorCode.INVALID_SESSION_TIMEOUT: (
            "the session timeout is not within group.min.session.timeout.ms and group.max.session.timeout.ms"
        ),
        ErrorCode.REBALANCE_IN_PROGRESS: "the group is rebalancing, so a rejoin is needed",
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE: "the committing offset data size is not valid",
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed",
        ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed",
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed",
        ErrorCode.INVALID_TIMESTAMP: "the timestamp of the message is out of acceptable range",
        ErrorCode.UNSUPPORTED_SASL_MECHANISM: "the broker does not support the requested SASL mechanism",
        ErrorCode.ILLEGAL_SASL_STATE: "the request is not valid given the current SASL state",
        ErrorCode.UNSUPPORTED_VERSION: "the version of API is not supported",
        ErrorCode.TOPIC_ALREADY_EXISTS: "a topic with this name already exists",
        ErrorCode.INVALID_PARTITIONS: "the number of partitions is below 1, or not an increase",
        ErrorCode.INVALID_REPLICATION_FACTOR: (
            "the replication factor is below 1 or larger than the number of available brokers"
        ),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT: "the replica assignment is invalid",
        ErrorCode.INVALID_CONFIG: "the configuration is invalid",
        ErrorCode.NOT_CONTROLLER: "this is not the correct controller for this cluster",
        ErrorCode.INVALID_REQUEST: (
            "the request is malformed, or the broker is incompatible with it; the broker logs say more"
        ),
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: (
            "the message format version on the broker does not support the request"
        ),
        ErrorCode.POLICY_VIOLATION: "the request does not satisfy the configured policy",
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: (
            "the broker received an out of order sequence number: records before these are missing"
        ),
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "the broker received a duplicate sequence number",
        ErrorCode.INVALID_PRODUCER_EPOCH: "the producer attempted to produce with an old epoch",
        ErrorCode.INVALID_TXN_STATE: "the producer attempted a transactional operation in an invalid state",
        ErrorCode.INVALID_PRODUCER_ID_MAPPING: "the producer id is not currently assigned to its transactional id",
        ErrorCode.INVALID_TRANSACTION_TIMEOUT: (
            "the transaction timeout is larger than the maximum value allowed, transaction.max.timeout.ms"
        ),
        ErrorCode.CONCURRENT_TRANSACTIONS: "another concurrent operation on the same transaction is ongoing",
        ErrorCode.TRANSACTION_COORDINATOR_FENCED: (
            "the transaction coordinator is no longer the current coordinator for the producer"
        ),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed",
        ErrorCode.SECURITY_DISABLED: "security features are disabled",
        ErrorCode.OPERATION_NOT_ATTEMPTED: (
            "the broker did not attempt to execute this operation, since another of the request failed"
        ),
        ErrorCode.KAFKA_STORAGE_ERROR: "disk error when trying to access a log file on the broker",
        ErrorCode.LOG_DIR_NOT_FOUND: "the log directory is not found in the broker config",
        ErrorCode.SASL_AUTHENTICATION_FAILED: "SASL authentication failed",
        ErrorCode.UNKNOWN_PRODUCER_ID: (
            "the broker could not locate the producer metadata of this producerId: its records are deleted"
        ),
        ErrorCode.REASSIGNMENT_IN_PROGRESS: "a partition reassignment is in progress",
        ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "the delegation token feature is not enabled",
        ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "the delegation token is not found on server",
        ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "the principal is not valid owner or renewer of the token",
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "delegation token requests are not allowed on this channel",
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation Token authorization failed",
        ErrorCode.DELEGATION_TOKEN_EXPIRED: "the delegation token is expired",
        ErrorCode.INVALID_PRINCIPAL_TYPE: "the principalType is not supported",
        ErrorCode.NON_EMPTY_GROUP: "the group is not empty: it has members",
        ErrorCode.GROUP_ID_NOT_FOUND: "the group id does not exist",
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND: "the fetch session ID was not found",
        ErrorCode.INVALID_FETCH_SESSION_EPOCH: "the fetch session epoch is invalid",
        ErrorCode.LISTENER_NOT_FOUND: (
            "there is no listener on the leader broker that matches the listener of the request"
        ),
        ErrorCode.TOPIC_DELETION_DISABLED: "topic deletion is disabled (delete.topic.enable)",
        ErrorCode.FENCED_LEADER_EPOCH: "the leader epoch in the request is older than the epoch on the broker",
        ErrorCode.UNKNOWN_LEADER_EPOCH: "the leader epoch in the request is newer than the epoch on the broker",
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "the client does not support the compression type of the partition",
        ErrorCode.STALE_BROKER_EPOCH: "the broker epoch has changed",
        ErrorCode.OFFSET_NOT_AVAILABLE: "the leader high watermark has not caught up from a recent leader election",
        ErrorCode.MEMBER_ID_REQUIRED: "the group member needs to have a valid member id before it enters the group",
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "the preferred leader was not available",
        ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has reached its maximum size (group.max.size)",
        ErrorCode.FENCED_INSTANCE_ID: (
            "another consumer with the same group.instance.id has registered with a different member.id"
        ),
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "eligible topic partition leaders are not available",
        ErrorCode.ELECTION_NOT_NEEDED: "leader election not needed for topic partition",
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "no partition reassignment is in progress",
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
            "the group is actively subscribed to the topic: deleting offsets of it is forbidden until it is not"
        ),
        ErrorCode.INVALID_RECORD: "the record has failed the validation on broker and is rejected",
        ErrorCode.UNSTABLE_OFFSET_COMMIT: (
            "there are unstable offsets that need to be cleared: a transaction with them is open"
        ),
        ErrorCode.THROTTLING_QUOTA_EXCEEDED: "the throttling quota has been exceeded",
        ErrorCode.PRODUCER_FENCED: "there is a newer producer with the same transactionalId which fences this one",
        ErrorCode.RESOURCE_NOT_FOUND: "the request refers to a resource that does not exist",
        ErrorCode.DUPLICATE_RESOURCE: "the request refers to the same resource twice",
        ErrorCode.UNACCEPTABLE_CREDENTIAL: "the credential would not meet criteria for acceptability",
        ErrorCode.INCONSISTENT_VOTER_SET: "the sender or the recipient is not one of the expected voters",
        ErrorCode.INVALID_UPDATE_VERSION: "the given update version was invalid",
        ErrorCode.FEATURE_UPDATE_FAILED: "unable to update finalized features due to an unexpected server error",
        ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: "request principal deserialization failed during forwarding",
        ErrorCode.SNAPSHOT_NOT_FOUND: "the requested snapshot was not found",
        ErrorCode.POSITION_OUT_OF_RANGE: "the requested position is not within the size of the snapshot",
        ErrorCode.UNKNOWN_TOPIC_ID: "this server does not host this topic ID",
        ErrorCode.DUPLICATE_BROKER_REGISTRATION: "this broker ID is already in use",
        ErrorCode.BROKER_ID_NOT_REGISTERED: "the given broker ID was not registered",
        ErrorCode.INCONSISTENT_TOPIC_ID: "the log's topic ID did not match the topic ID in the request",
        ErrorCode.INCONSISTENT_CLUSTER_ID: "the clusterId in the request does not match that found on the server",
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "the transactionalId could not be found",
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: "the fetch session encountered inconsistent topic ID usage",
        ErrorCode.INELIGIBLE_REPLICA: "the new ISR contains at least one ineligible replica",
        ErrorCode.NEW_LEADER_ELECTED: "the partition state was updated, but the leader has changed",
        ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: "the requested offset is moved to tiered storage",
        ErrorCode.FENCED_MEMBER_EPOCH: (
            "the member epoch is fenced by the group coordinator: the member must abandon its partitions and rejoin"
        ),
        ErrorCode.UNRELEASED_INSTANCE_ID: "the instance ID is still used by another member, which must leave first",
        ErrorCode.UNSUPPORTED_ASSIGNOR: "the assignor or its version range is not supported by the group",
        ErrorCode.STALE_MEMBER_EPOCH: "the member epoch is stale: the member must retry with its updated member epoch",
        ErrorCode.MISMATCHED_ENDPOINT_TYPE: "the request was sent to an endpoint of the wrong type",
        ErrorCode.UNSUPPORTED_ENDPOINT_TYPE: "this endpoint type is not supported yet",
        ErrorCode.UNKNOWN_CONTROLLER_ID: "this controller ID is not known",
        ErrorCode.UNKNOWN_SUBSCRIPTION_ID: "the push telemetry request has an invalid or outdated subscription ID",
        ErrorCode.TELEMETRY_TOO_LARGE: "the push telemetry request is larger than the maximum size the broker accepts",
        ErrorCode.INVALID_REGISTRATION: "the controller has considered the broker registration to be invalid",
        ErrorCode.TRANSACTION_ABORTABLE: "the server encountered an error with the transaction: abort it to continue",
        ErrorCode.INVALID_RECORD_STATE: (
            "the record state is invalid: the acknowledgement of delivery could not be completed"
        ),
        ErrorCode.SHARE_SESSION_NOT_FOUND: "the share session was not found",
        ErrorCode.INVALID_SHARE_SESSION_EPOCH: "the share session epoch is invalid",
        ErrorCode.FENCED_STATE_EPOCH: "the share-group state epoch did not match",
        ErrorCode.INVALID_VOTER_KEY: "the voter key doesn't match the receiving replica's key",
        ErrorCode.DUPLICATE_VOTER: "the voter is already part of the set of voters",
        ErrorCode.VOTER_NOT_FOUND: "the voter is not part of the set of voters",
        ErrorCode.INVALID_REGULAR_EXPRESSION: "the regular expression is not valid",
        ErrorCode.REBOOTSTRAP_REQUIRED: "client metadata is stale: the client should rebootstrap",
        ErrorCode.STREAMS_INVALID_TOPOLOGY: "the supplied topology is invalid",
        ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH: "the supplied topology epoch is invalid",
        ErrorCode.STREAMS_TOPOLOGY_FENCED: "the supplied topology epoch is outdated",
        ErrorCode.SHARE_SESSION_LIMIT_REACHED: "the limit of share sessions has been reached",
    }
)
"""For every code; it goes on after "topic x: ", so it begins small unless its first word is a name."""
