"""Writes the documents that are tables of what the code says: docs/settings.md and docs/compatibility.md.

`--check` writes nothing and exits with 1 when one of them is not what it would write.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from ottla.gateways.kafka.apis import APIS as SERVED
from ottla.protocol.api_keys import APIS, ApiKey
from ottla.settings.broker_table import BROKER_SETTINGS
from ottla.settings.client_metrics_table import CLIENT_METRICS_SETTINGS
from ottla.settings.definition import SettingDefinition
from ottla.settings.foreign_settings import IGNORED_PREFIXES, REFUSED_PREFIXES
from ottla.settings.group_table import GROUP_SETTINGS
from ottla.settings.topic_table import TOPIC_SETTINGS

ROOT = Path(__file__).resolve().parent.parent

SETTINGS_HEAD = """# Settings

All supported settings. A setting that is not in these tables is refused, by name and with the reason: at the start of
the broker (`ottla serve --set key=value`, `--config FILE`), by CreateTopics, AlterConfigs and
IncrementalAlterConfigs. Inapplicable Kafka settings are ignored with a warning. Accepted but not yet implemented
settings are marked below, in DescribeConfigs, and in a warning when `ottla topic` or `ottla config` sets them.

AlterConfigs and IncrementalAlterConfigs (`ottla config set`) change dynamic settings without a restart, for one
broker or for all. Such a change survives a restart. Precedence: dynamic per broker, dynamic default for all brokers,
static (file or command line), built-in default. A topic's own setting overrides all of these.

This file is written by `tools/generate_docs.py`.
"""

IGNORED_WITH_WARNING = (
    "They are accepted in a file and on the command line, with a warning, so that a file written for Kafka starts a",
    "broker. They cannot be set while it runs.",
)

REFUSED = (
    "They promise something that the broker does not do. A topic setting is accepted with the value that switches it",
    "off.",
)

GROUPS = (
    "The group does not have to exist. A setting that it does not have comes from the broker setting with the prefix",
    "`group.`; its value must lie between `group.*.min.` and `group.*.max.`.",
)

CLIENT_METRICS = (
    "A subscription consists of its settings: it exists while it has any. Matching clients push the metrics that it",
    "names (KIP-714); librdkafka from 2.5 and the Java client from 3.7 on do so by default. The broker keeps them in",
    "the topic `__client_metrics`, and `ottla client-metrics` shows them.",
)

COMPATIBILITY_HEAD = """# Compatibility

What the Kafka listener serves, beside what Apache Kafka 4.3 serves to clients. A request with an API or a version
that is not served closes the connection, as in Kafka. ApiVersions tells every client beforehand.

Ottla has four APIs of its own: DescribeDeliveries (31000), what share groups have in flight, RedisCommands (31001),
by which brokers forward commands of Redis clients to each other, DescribeHistory (31002), what became of a record
in share groups, and ShareReads (31003), by which brokers have messages for NSQ clients from the leaders. ApiVersions
names 31000 and 31002, and only to Ottla's own client.

Kafka also answers keys 83 to 87 to clients, with which brokers store the state of share groups. It advertises keys
71 and 72 only where a plugin receives telemetry; Ottla advertises them while a client metrics subscription exists.
APIs between other brokers and controllers are left out here.

This file is written by `tools/generate_docs.py`.
"""

COMPATIBILITY_TAIL = """
## Where the answers differ

### Produce and records

- **Produce is advertised from version 0** and served from 3, as in Apache Kafka: librdkafka takes the lowest version
  for the broker's message format (KAFKA-18659).
- **acks=all means synced to disk**, and consumers see records once they are synced. `log.flush.before.ack=false`
  gives Kafka's promise. Where no other replica is waited for, the disk gets at least five seconds, whatever
  `timeout_ms` says.
- **A partition that Produce names twice** is refused with INVALID_REQUEST, and nothing is written to it. Kafka writes
  the last batch, drops the others, and answers once, without an error.
- **Message formats 0 and 1 are refused**, as in Kafka 4.
- **Compressed batches are not decompressed** unless the topic needs it (compaction, stricter timestamp limits than
  the defaults, another codec). Kafka decompresses every batch at Produce. Uncompressed batches are read through, and
  refused with INVALID_RECORD when they are not what the header says. Of compressed ones the broker checks the
  checksum, the header, the first bytes and whether the record count is plausible; a consumer refuses what it cannot
  decompress.
- **A batch that is decompressed** may hold 32 times `max.message.bytes`, 64 MiB at most; Kafka has no limit. Offsets
  in it that are not consecutive are refused; Kafka numbers such records anew. Broken compression is INVALID_RECORD,
  which no client retries; in Kafka some codecs make it UNKNOWN_SERVER_ERROR or CORRUPT_MESSAGE.
- **Refused records** are named in `record_errors` up to 1,000 per batch; Kafka names all.
- **`compression.lz4.level`** is stored and has no effect. A zstd level above 9 applies to batches of up to 4 MiB of
  records; larger ones are compressed at 9.
- **When the ISR becomes too small for records that wait for acks=all**, they keep waiting: they are acknowledged when
  it has grown again, or answered with REQUEST_TIMED_OUT. NOT_ENOUGH_REPLICAS_AFTER_APPEND is never sent. Kafka 4 does
  the same, except in one race.

### Fetch and offsets

- **A Fetch with a replica id** is refused with CLUSTER_AUTHORIZATION_FAILED unless the connection is authenticated as
  that broker. ListOffsets and OffsetForLeaderEpoch answer every replica id as they answer a consumer.
- **A Fetch ends with a whole batch** where the next does not fit and the broker knows where it begins. Kafka sends as
  much of the next batch as fits, and clients drop it. `fetch.min.bytes` counts it in both.
- **A waiting Fetch** is answered with what there is when its client sends a request other than Metadata behind it on
  the same connection, because that answer would have to wait. Kafka lets it wait.
- **A partition error in a fetch session** ends the wait when it is new, and is repeated in each later answer. Kafka
  answers at once each time, except for unknown topics beside known ones. A fetch that has found records does not wait
  for `fetch.min.bytes` when further records are there that do not fit its limits; Kafka waits.
- **A fetch session with a deleted topic** gets UNKNOWN_TOPIC_ID from version 13 on, whether or not the name exists
  again. Kafka answers UNKNOWN_TOPIC_OR_PARTITION, and INCONSISTENT_TOPIC_ID when it exists again.
- **ListOffsets of the end or of a time** waits for a running sync, one second at most. It shows nothing that a power
  cut may take, and finds what was acknowledged with acks=0 or acks=1 just before. Kafka also shows unsynced records.
- **ListOffsets never answers an offset below the log start**; Kafka does for the greatest timestamp (-3).
- **DeleteRecords is on disk when it is answered**; Kafka writes the log start once a minute.
- **An isolation level other than 0 and 1** is INVALID_REQUEST in Fetch and ListOffsets; Kafka answers
  UNKNOWN_SERVER_ERROR.
- **The expression of ListTransactions** is read as RE2 reads it, without Unicode: `.`, `\\W` and `[^a]` do not match
  characters beyond ASCII, and `\\pL` and octal escapes are refused with INVALID_REGULAR_EXPRESSION. So are expressions
  that take much memory, such as `(a{100}){100}`; Kafka compiles them.
- **What a describing request names twice** (groups, configs, producers, transactions) is described once, and
  OffsetFetch answers a partition once. Kafka answers it twice.
- **A consumer that asks a follower beyond its log** gets NOT_LEADER_OR_FOLLOWER, because only the leader knows the
  range. Kafka answers OFFSET_OUT_OF_RANGE, and the consumer resets its offset.
- **The high watermark of a follower** may lag by `replica.fetch.wait.max.ms` when nothing is written. Consumers that
  read from it (`replica.selector.class`) get the last records that much later. Kafka's leaders send it at once.

### Transactions

- **InitProducerId of a fenced transactional producer** is refused with PRODUCER_FENCED at once. Kafka first aborts
  the open transaction of the producer that took over.
- **The next transaction of a producer** begins without CONCURRENT_TRANSACTIONS while the markers of the last one are
  written: the request waits for them. Kafka has the client retry.
- **A transaction of more than 4,096 partitions**, or whose record does not fit its topic, gets TRANSACTION_ABORTABLE.
  One partition of `__transaction_state` holds 5,000 transactional ids; a further one gets POLICY_VIOLATION.
- **The second batch of a transaction** waits for the coordinator's answer to the first. Kafka asks for each batch,
  and fails the earlier one.
- **AddPartitionsToTxn from version 4 on**, which Kafka's brokers use among themselves, is answered to a client with
  the rights that it has in version 3, because the JavaScript library of Platformatic sends 5. Kafka demands
  CLUSTER_ACTION where it has an authorizer. A client may name 100 transactions at once, with 4,096 partitions; more
  get TRANSACTION_ABORTABLE.

### Groups

- **A subscription by regular expression** is resolved within the heartbeat that brings it, and the first answer has
  the member's partitions. Kafka resolves it in the background, for the next answer. The syntax is RE2's without
  Unicode classes (`\\pL`), which topic names never need. A group has at most 100 different expressions of 4,096
  bytes, and each may match 900 kB of names; a member beyond that gets INVALID_REGULAR_EXPRESSION. Dropping an
  expression begins a new epoch at once; Kafka's group keeps the topics until something else changes.
- **The server-side assignor `uniform`** gives a surplus partition to members that have more already, so that fewer
  partitions move. Kafka gives it to the first member.
- **OffsetFetch while the group's coordinator moves or loads** has an error for each requested partition beside that
  of the group: UNSTABLE_OFFSET_COMMIT from version 8 on, the group's error before. Kafka names no partition; aiokafka
  then begins at `auto.offset.reset`, and librdkafka stops reading what it was just assigned.
- **Writes of a coordinator** (a commit, a join) wait until they are committed, and later requests to the same
  partition of its topic wait behind them. When an in-sync replica stops answering, they wait until it has left the
  ISR; when too few replicas are left, until another is back. Kafka answers COORDINATOR_NOT_AVAILABLE after
  `offsets.commit.timeout.ms`. When too few are left already, both answer so at once.
- **A member of a streams group that reports other tasks than it was assigned** is sent its assignment again; Kafka
  sends it when it changes. A topology that only differs in order is the same one. A group has at most 10,000 tasks.
- **A group of the classic protocol** is in the log from its first agreed generation on. One whose members never fetched
  their assignment is gone after a restart; Kafka writes an empty group at the first join, which it then expires.

### Metadata and administration

- **Metadata about a broker that has just died**: as soon as a connection to it is refused, the other brokers answer
  LEADER_NOT_AVAILABLE for its partitions, for three seconds at most. Kafka names the dead leader until its session
  has ended. For five seconds after the fencing the dead broker stays in the list of brokers: librdkafka finds new
  leaders faster this way.
- **Metadata is never without brokers**: while the controller has heard from none yet, as after a start of all at
  once, it lists all that are registered. Kafka lists none, and librdkafka, which then forgets the brokers it knew,
  never asks again (confluentinc/librdkafka#5301).
- **A topic that Metadata creates** (`auto.create.topics.enable`) is in the answer, with its partitions. Kafka answers
  UNKNOWN_TOPIC_OR_PARTITION, creates it meanwhile, and names it in the next answer.
- **Version 0 of Metadata** names all replicas of a partition, as later versions do. Kafka leaves out those whose
  broker is dead, with REPLICA_NOT_AVAILABLE.
- **A null topic list of Metadata encoded in four bytes** is understood: librdkafka 2.16 sends it in the flexible
  versions. Other bytes behind the end of a request close the connection; Kafka ignores them. kafka-go's DescribeAcls
  of version 3 has one such byte.
- **The requests of one connection run concurrently** and are answered in order. Kafka reads the next one after it has
  answered the last. Requests that change metadata or wait for a disk hold back those behind them. Requests that
  change what earlier requests work on (a deletion, EndTxn, settings) start once those are answered.
- **A request has at most 131,072 elements** in all its arrays together; more close its connection.
- **A cursor of DescribeTopicPartitions** may name a topic that is not requested, such as one deleted meanwhile: the
  page begins behind it. Kafka answers INVALID_REQUEST.
- **ElectLeaders of all partitions** leaves out topics without a result; Kafka lists them empty.
- **UnregisterBroker** refuses a broker that runs, because it would register again.
- **A reassignment of a partition without a leader** can be cancelled. Kafka refuses that, with
  INVALID_REPLICA_ASSIGNMENT.
- **APIs for brokers only** (AlterPartition, BrokerHeartbeat, AllocateProducerIds, AssignReplicasToDirs, Envelope,
  WriteTxnMarkers that commit) are answered to clients with CLUSTER_AUTHORIZATION_FAILED, and nothing changes. Kafka
  closes the connection, or carries the request out where it has no authorizer.
- **Features** have the levels that are served; `metadata.version` has one. Features without a use here
  (`kraft.version`, `eligible.leader.replicas.version`) are not shown.

### Share groups

- **A member that joins** gets its partitions at once; Kafka computes assignments once a second.
- **Offsets of transaction markers** are never delivered. Kafka delivers them, and a consumer must acknowledge them as
  gaps.
- **A fetch of a topic that does not exist** is answered with UNKNOWN_TOPIC_ID for that topic, an unknown acquire mode
  with INVALID_REQUEST, and offsets of no partitions with none. Kafka fails the whole request with UNKNOWN_SERVER_ERROR.
- **A change of the start offsets** begins a new epoch of the group, so that a leader with the old state is fenced.
- **A write of delivery state** (WriteShareGroupState) is refused with FENCED_STATE_EPOCH unless its state epoch is the
  known one, or -1. Kafka takes every higher one, so the leader of a group that was deleted writes into the group that
  was made again under its name. A write also raises the leader epoch, and state that begins anew keeps it; in Kafka
  only reads raise it, and state that begins anew has leader epoch 0.
- **Batches between those of acquired records** are left out of a ShareFetch, where Kafka's reads through them. Clients
  see no difference.
- **The start offset of a group** is stored with the acknowledgement that moves it; Kafka stores it with the next one.
- **The lag of a start offset beyond the end** is 0; Kafka's is negative.
- **An error of a heartbeat** says what is wrong with the member id, and an empty group id is refused when offsets are
  described.

### Users and ACLs

- **An ACL or a filter that cannot be** is refused with INVALID_REQUEST, and the others of the request are added. Kafka
  fails the whole request with UNKNOWN_SERVER_ERROR, or closes the connection.
- **A user's credentials for two mechanisms** can be set by one request, as Kafka's documentation has it; Kafka refuses
  the second.
- **Brokers** prove the cluster's secret to each other, not the name of a user: an ACL for CLUSTER_ACTION makes nobody a
  broker.
- **A refusal** says who may not do what.
- **SASL**: mechanisms are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER.

### Settings and quotas

- **An unknown, unsupported or read-only setting** is refused with INVALID_CONFIG, which names every such setting of
  the resource and what to do. Kafka silently accepts an unknown broker setting, silently deletes an unknown topic
  setting, refuses a read-only one with INVALID_REQUEST, and stops at the first.
- **A bad value of a broker setting** is refused with INVALID_CONFIG, as that of a topic; Kafka answers
  INVALID_REQUEST. A good one is described as it is read (`" 5 "` is `5`), as for topics; Kafka shows what was written.
- **Values without a meaning** are refused: NaN for a share, a negative `log.flush.interval.ms`, less than one byte a
  second for `log.cleaner.io.max.bytes.per.second`. Kafka accepts them. `log.cleaner.threads` takes 0 to 16 at once, and
  `log.cleaner.dedupe.buffer.size` less than 1 MiB; Kafka at most doubles the one and refuses the other.
- **Settings of tiered storage** are accepted for topics and have no effect, as in Kafka where it is disabled;
  `remote.storage.enable=true` is refused there and here. Brokers refuse theirs.
- **The synonyms of a topic setting** name the default that it comes from even where the unit differs, such as
  `log.retention.hours` for `retention.ms`; Kafka names none there.
- **Broker settings** can be changed through any broker, also for a broker that does not run; in Kafka only through
  the broker itself. They are described by that broker alone, as in Kafka.
- **Settings of Kafka's threads, caches and purgatories** are refused while the broker runs and ignored in a file,
  because they would change nothing.
- **Group settings** are kept for 10,000 groups at most, client metrics subscriptions for 100; Kafka has no limit. A
  value beyond the broker's bounds is refused with INVALID_CONFIG, which names the bound.
- **`listeners` set on a running broker** are opened beside those it started with, which cannot be removed; Kafka
  keeps those it advertises. An added listener moves when its address changes; Kafka accepts the value and does not
  move it. Controller listeners are not opened.
- **`max.connections.per.ip.overrides`** takes addresses; host names, which Kafka resolves, are refused.
- **Quotas apply when a request arrives**: a Produce counts at arrival, not when it is answered. No further request of
  a throttled client starts until its throttle time is over. A batch larger than all windows of `consumer_byte_rate`
  is given to a client that has read nothing lately; Kafka never returns it. `request_percentage` refers to the one
  thread that handles requests. Quotas for IPs name addresses, not hosts.
- **Client metrics** (KIP-714) are kept by the broker itself, in the topic `__client_metrics`, unchanged; in Kafka a
  plugin takes them. A client that connected before the first subscription pushes when it connects again, the Java
  client when it is restarted. A push without room is answered with THROTTLING_QUOTA_EXCEEDED; Kafka answers
  INVALID_RECORD, after which clients push nothing more. Patterns of `match` use RE2 where they can.

### Replication

- **Eligible leader replicas (KIP-966)** are always kept. They end also when an election makes the ISR as large as
  `min.insync.replicas`. The last known leader is elected only when it is alive, and not when its directory is empty
  and another replica exists. An unclean election takes the newest log of those that answer; Kafka takes the first.
  With the feature, Kafka writes `min.insync.replicas=1` for all brokers of a new cluster, which DescribeConfigs then
  names as its source (DYNAMIC_DEFAULT_BROKER_CONFIG); here it is a default (DEFAULT_CONFIG).
- **A follower's fetch offset** is what it has on disk where records are flushed before they are acknowledged; in
  Kafka, what it has appended. The default of `replica.fetch.wait.max.ms` is 100; Kafka's is 500.
- **A follower outside the ISR holds the high watermark back** while its last fetch began at what was the log end at
  the fetch before. In Kafka every follower does that had everything within `replica.lag.time.max.ms`, even one that
  has much left to fetch.
"""

LEFT_OUT = {
    ApiKey.FETCH: "only authenticated brokers of the cluster fetch as replicas",
    ApiKey.LIST_OFFSETS: "no tiered storage: -5 and -6 find no offset, -4 is -2",
    ApiKey.FIND_COORDINATOR: "share partitions for brokers only",
    ApiKey.DESCRIBE_QUORUM: "describes the metadata store: the controller is its only voter",
    ApiKey.UPDATE_FEATURES: "the features that are served",
    ApiKey.DESCRIBE_LOG_DIRS: "no directory is ever cordoned",
    ApiKey.DESCRIBE_CLUSTER: "brokers; controllers have no address of their own",
    ApiKey.ENVELOPE: "between brokers",
    ApiKey.ALTER_PARTITION: "between brokers; version 2 lacks the broker epoch",
    ApiKey.BROKER_HEARTBEAT: "between brokers",
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: "between brokers",
    ApiKey.READ_SHARE_GROUP_STATE: "between brokers",
    ApiKey.WRITE_SHARE_GROUP_STATE: "between brokers",
    ApiKey.DELETE_SHARE_GROUP_STATE: "between brokers",
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: "between brokers",
    ApiKey.ALLOCATE_PRODUCER_IDS: "between brokers",
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: "between brokers",
    ApiKey.SASL_AUTHENTICATE: "SCRAM-SHA-512 between brokers",
}
"""What a served API does not do."""

WHY_NOT = {
    "SASL": {
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    },
    "the KRaft quorum, which Ottla does not have": {
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    },
}


def settings_table(definitions: Mapping[str, SettingDefinition]) -> list[str]:
    """One row a setting."""
    rows = ["| setting | type | default | dynamic | what it does |", "|---|---|---|---|---|"]
    for definition in definitions.values():
        default = "" if definition.default is None else f"`{definition.default}`" if definition.default else "empty"
        changed = {"read-only": "no", "per-broker": "per broker"}.get(definition.update_mode.value, "yes")
        documentation = definition.full_documentation.replace("|", "\\|")
        kind = definition.type.name.lower()
        rows.append(f"| `{definition.name}` | {kind} | {default} | {changed} | {documentation} |")
    return rows


def settings_document() -> str:
    """docs/settings.md."""
    lines = ["## Broker", "", *settings_table(BROKER_SETTINGS), "", "## Topic", "", *settings_table(TOPIC_SETTINGS)]
    lines += ["", "## Group", "", *GROUPS, "", *settings_table(GROUP_SETTINGS)]
    lines += ["", "## Client metrics", "", *CLIENT_METRICS, "", *settings_table(CLIENT_METRICS_SETTINGS)]
    lines += ["", "## Kafka settings that are ignored", "", *IGNORED_WITH_WARNING, ""]
    lines += reasons_table(IGNORED_PREFIXES)
    lines += ["", "## Kafka settings that are refused", "", *REFUSED, ""]
    lines += reasons_table(REFUSED_PREFIXES)
    return SETTINGS_HEAD + "\n" + "\n".join(lines) + "\n"


def reasons_table(reasons: Mapping[str, str]) -> list[str]:
    """One row a setting, or all settings whose names begin so."""
    rows = ["| setting | why |", "|---|---|"]
    for name, reason in sorted(reasons.items()):
        rows.append(f"| `{name}*` | {reason} |" if name.endswith(".") else f"| `{name}` | {reason} |")
    return rows


def compatibility_document() -> str:
    """docs/compatibility.md."""
    rows = ["| key | API | Kafka 4.3 | served | left out |", "|---|---|---|---|---|"]
    for key, api in sorted(APIS.items()):
        if api.key.is_extension:
            continue  # Kafka has no such API
        served = SERVED.get(key)
        versions = f"{served.min_version}-{served.max_version}" if served is not None else "no"
        reason = next((why for why, keys in WHY_NOT.items() if api.key in keys), "")
        note = LEFT_OUT.get(api.key, "") if served is not None else f"belongs to {reason}" if reason else "not yet"
        rows.append(f"| {key} | {api.name} | {api.min_version}-{api.max_version} | {versions} | {note} |")
    return COMPATIBILITY_HEAD + "\n" + "\n".join(rows) + "\n" + COMPATIBILITY_TAIL


def main() -> int:
    """Write or check the documents."""
    stale = 0
    for name, text in (("settings.md", settings_document()), ("compatibility.md", compatibility_document())):
        path = ROOT / "docs" / name
        if path.exists() and path.read_text() == text:
            continue
        if "--check" in sys.argv[1:]:
            print(f"docs/{name} is stale: run tools/generate_docs.py", file=sys.stderr)
            stale = 1
        else:
            path.write_text(text)
    return stale


if __name__ == "__main__":
    sys.exit(main())
