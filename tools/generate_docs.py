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
from ottla.settings.topic_table import TOPIC_SETTINGS, UNSUPPORTED_TOPIC_SETTINGS

ROOT = Path(__file__).resolve().parent.parent

SETTINGS_HEAD = """# Settings

Every setting that is honoured. A setting that is not in these tables is refused, by name and with the reason, at the
start of the broker (`ottla serve --set key=value`, `--config FILE`) and by CreateTopics, AlterConfigs and
IncrementalAlterConfigs; the few settings of Kafka's that can mean nothing here are passed over with a word in the log.
A setting that is taken and changes nothing yet says so below, in DescribeConfigs, and when `ottla topic` sets it.

A setting that can be changed while the broker runs is changed by AlterConfigs and IncrementalAlterConfigs, for one
broker by its number or for all, without a restart and over it. What holds is the first of: what was set on this broker
while it ran, what was set on all brokers, what the broker was started with, the default. A topic's own settings stand
over all of these.

This file is written by `tools/generate_docs.py`.
"""

PASSED_OVER = (
    "They may stand in a file and on the command line, where each is said to change nothing, so that a file of Kafka's",
    "starts a broker. They cannot be set while it runs.",
)

REFUSED = (
    "They promise what the broker would not keep. A topic's may be given with the value that Kafka has without them.",
)

GROUPS = (
    "A group need not be there yet. What it does not set comes from the broker setting of the same name behind",
    "`group.`; what it sets stays within `group.*.min.` and `group.*.max.`.",
)

CLIENT_METRICS = (
    "A subscription is nothing but its settings: it is there while it has any. Clients that match push the metrics it",
    "names (KIP-714), librdkafka from 2.5 and the Java client from 3.7 on by themselves; the broker keeps them in the",
    "topic `__client_metrics`, and `ottla client-metrics` shows them.",
)

COMPATIBILITY_HEAD = """# Compatibility

What the Kafka door serves, beside what Apache Kafka 4.3 serves to clients. A request of an API or a version that is not
served closes the connection, as Kafka does; ApiVersions says all of this to every client before it asks.

Kafka answers keys 83 to 87 as well, by which brokers keep the state of share groups at each other, and tells of keys 71
and 72 only where a plugin receives telemetry; Ottla tells of those two while there is a subscription to metrics. What
other brokers and controllers send is left out here.

This file is written by `tools/generate_docs.py`.
"""

COMPATIBILITY_TAIL = """
## Where the answers differ

- **Produce is advertised from version 0** and served from 3, as Apache Kafka does: librdkafka takes the lowest version
  for the broker's message format (KAFKA-18659).
- **Metadata of brokers that have just died**: as soon as a broker's connection to another is refused, it answers
  LEADER_NOT_AVAILABLE for what that one led, for three seconds at most; Kafka names the dead leader until its session
  has ended. Who died is told among the brokers for five seconds after it was fenced: librdkafka finds new leaders so.
- **Metadata is never without brokers**: while the controller has heard none yet, as after a start of all at once,
  clients are told of all that are registered. Kafka tells of none, and librdkafka, which then forgets those that it
  knew, asks nobody ever again (confluentinc/librdkafka#5301).
- **A topic that Metadata creates** (`auto.create.topics.enable`) is in the answer, with its partitions. Kafka says
  UNKNOWN_TOPIC_OR_PARTITION, has it made meanwhile, and names it the next time it is asked.
- **Requests of one connection are worked on side by side** and answered in order; Kafka reads the next one after it has
  answered the last. Requests that change metadata or wait for a disk hold back those behind them; those that change
  what requests before them are about (a deletion, EndTxn, other settings) begin once these are answered.
- **acks=all means synced to disk**, and consumers see records once they are; `log.flush.before.ack=false` is Kafka's
  promise. Where no other broker is waited for, the disk has five seconds at least, whatever `timeout_ms` says.
- **InitProducerId of a transactional producer that was fenced off** is refused with PRODUCER_FENCED at once; Kafka
  first aborts the transaction of the producer that took over, when it has one open.
- **The next transaction of a producer** begins without CONCURRENT_TRANSACTIONS while the markers of the one before are
  written: the request waits for them. Kafka has the client ask again.
- **A transaction of more than 4,096 partitions**, or whose record would not fit its topic, is told
  TRANSACTION_ABORTABLE; of 5,000 transactional ids in one partition of `__transaction_state` a further one is told
  POLICY_VIOLATION.
- **A batch that follows the first of a transaction** waits for the coordinator's answer with it; Kafka asks for each,
  and answers the one it asked for before with an error.
- **A quota is kept where a request comes in**: a Produce counts when it arrives and not when it is answered, of what a
  client has sent ahead nothing more is begun until its time is over, and a batch that is larger than all windows of
  `consumer_byte_rate` allow is given to who has read nothing lately; Kafka never gives it. `request_percentage` is of
  the one thread that handles requests. Quotas of addresses name addresses, not hosts.
- **A subscription by regular expression** is looked up within the heartbeat that brings it, and its member has
  partitions with the first answer; Kafka looks it up in the background, for the next one. The syntax is RE2's without
  classes of Unicode (`\\pL`): names of topics have none. A group has 100 different expressions at most, of 4,096 bytes
  each, and each may match 900 kB of names; beyond that a member is told INVALID_REGULAR_EXPRESSION. One that is
  dropped begins a new epoch at once; Kafka's group keeps the topics until something else changes.
- **The server-side assignor `uniform`** gives the partition that is over to members that have more already, so that
  fewer move; Kafka gives it to the first it comes to.
- **Settings of groups** are kept for 10,000 groups at most, subscriptions to metrics 100; Kafka has no limit. A setting
  beyond the bounds of the broker is refused with INVALID_CONFIG that names the bound.
- **Metrics that clients push** (KIP-714) are kept by the broker itself, in the topic `__client_metrics`, as they came;
  in Kafka a plugin takes them. Who connected before the first subscription was made pushes when it connects again, the
  Java client when it is started again. A push that finds no room is answered with THROTTLING_QUOTA_EXCEEDED, where
  Kafka says INVALID_RECORD, after which clients push nothing more. Patterns of `match` are RE2's where they can be.
- **Features** have the levels that are served, `metadata.version` only one; features without a use here
  (`kraft.version`, `eligible.leader.replicas.version`, `share.version`) are not shown.
- **A Fetch with a replica id** is refused with CLUSTER_AUTHORIZATION_FAILED unless its connection has proved to be
  that broker's: no client gets a replica's rights by asking. ListOffsets and OffsetForLeaderEpoch answer every
  replica id as they answer a consumer.
- **A setting that is unknown, unsupported or read-only** is refused with INVALID_CONFIG that names every such setting
  of the resource and says what to do. Kafka takes an unknown setting of a broker without a word, deletes an unknown one
  of a topic without a word, refuses a read-only one with INVALID_REQUEST, and stops at the first.
- **The synonyms of a topic's setting** name the default that it comes from also where that has another unit, as
  `log.retention.hours` for `retention.ms`; Kafka names none there.
- **DeleteRecords is on disk when it is answered**; Kafka notes the log start once a minute. ListOffsets never answers
  an offset below the log start; Kafka does for the greatest timestamp (-3).
- **ListOffsets of the end or of a time** waits for a sync that is on its way, a second at most: nothing is shown that a
  power cut may take, and what was acknowledged with acks=0 or acks=1 just before is found. Kafka shows it unsynced.
- **An error of a partition in a fetch session** is a reason to answer when it is news, and told with each later answer.
  Kafka answers at once each time, but for unknown topics beside known ones. A fetch that has found records does not
  wait for `fetch.min.bytes` when others are there that do not fit its limits; Kafka waits.
- **A Fetch ends with a whole batch** where the next does not fit and the broker knows where it begins; Kafka sends as
  much of it as fits, which clients drop. `fetch.min.bytes` counts it in both.
- **A Fetch that waits for records** is answered with what there is when its client asks for something other than
  Metadata behind it on the same connection, whose answer would have to wait for it; Kafka lets it wait.
- **OffsetFetch of a group whose coordinator moves or loads** has an error for each partition that was asked for beside
  that of the group, UNSTABLE_OFFSET_COMMIT from version 8 on, before it the same; Kafka names no partition. aiokafka
  then begins at `auto.offset.reset`, and librdkafka reads nothing any more of what it was just assigned.
- **A partition that ListOffsets names twice** is answered once, with INVALID_REQUEST, as from Kafka; an isolation level
  other than 0 and 1 is INVALID_REQUEST where Kafka says UNKNOWN_SERVER_ERROR.
- **Replicas that are out of sync and eligible (KIP-966)** are always kept; they end also when an election makes the ISR
  as large as `min.insync.replicas`. The last leader is elected only when it is alive, and not when its directory is
  empty and there is another replica. An unclean election takes the newest log of those that answer; Kafka the first.
  With the feature Kafka writes `min.insync.replicas=1` for all brokers of a new cluster, which DescribeConfigs then
  names as its source (DYNAMIC_DEFAULT_BROKER_CONFIG); here it is a default (DEFAULT_CONFIG).
- **UnregisterBroker** refuses a broker that runs, which would register anew.
- **Settings of a broker** are changed by whichever broker is asked, and those of a broker that does not run as well;
  Kafka's take only their own. They are described by that broker alone, as Kafka's are.
- **What only brokers may ask** (AlterPartition, BrokerHeartbeat, AllocateProducerIds, AssignReplicasToDirs, Envelope,
  WriteTxnMarkers that commit) is answered with CLUSTER_AUTHORIZATION_FAILED, and nothing changes. Kafka closes the
  connection, or does what it was asked where it has no authorizer.
- **AddPartitionsToTxn from version 4 on**, by which Kafka's brokers ask each other, is answered to a client by the
  rights it has with version 3: the JavaScript library of Platformatic sends 5. Kafka demands CLUSTER_ACTION, where it
  has an authorizer. A client may name 100 transactions at once, with 4,096 partitions; beyond that it is told
  TRANSACTION_ABORTABLE.
- **A reassignment of a partition that nobody leads** can be cancelled; Kafka refuses that, with
  INVALID_REPLICA_ASSIGNMENT.
- **What a coordinator writes for a client** (a commit, a join) waits until it is committed, and what is asked of the
  same partition of its topic waits behind it; when a replica in sync falls silent, until that one has left the ISR,
  and when too few are left, until another is back. Kafka says COORDINATOR_NOT_AVAILABLE after
  `offsets.commit.timeout.ms`. What comes when too few are left already is told so at once by both.
- **A fetch session that has a topic which was deleted** is told UNKNOWN_TOPIC_ID from version 13 on, whether or not the
  name is there again; Kafka says UNKNOWN_TOPIC_OR_PARTITION, and INCONSISTENT_TOPIC_ID when it is.
- **A cursor of DescribeTopicPartitions** may name a topic that is not asked for, as one that was deleted meanwhile:
  the page begins behind it. Kafka answers INVALID_REQUEST.
- **Version 0 of Metadata** names all replicas of a partition, as later versions do; Kafka leaves out those whose broker
  is dead, with REPLICA_NOT_AVAILABLE.
- **ElectLeaders of all partitions** leaves out topics of which nothing is to be said; Kafka lists them empty.
- **`listeners` set on a running broker** are opened beside those it was started with, which cannot be taken out; Kafka
  keeps those it advertises. A listener that was added moves when its address changes; Kafka takes the value and stays
  where it is. Listeners of the controllers are not opened.
- **`max.connections.per.ip.overrides`** takes addresses; names of hosts, which Kafka looks up, are refused.
- **Settings of Kafka's threads, caches and purgatories** are refused while the broker runs, and passed over in a file:
  they would change nothing.
- **A null topic list of Metadata written in four bytes** is understood: librdkafka 2.16 sends it so in the flexible
  versions. Otherwise bytes behind the end of a request close the connection; Kafka passes over them. kafka-go's
  DescribeAcls of version 3 has one.
- **Message formats 0 and 1 are refused**, as Kafka 4 does.
- **Compressed records stay closed** unless the topic asks for what only they tell (keys, times nearer to now than the
  defaults, another codec): Kafka opens every batch at Produce. Here those without compression are read
  through and refused with INVALID_RECORD when they are not what the header says; of closed ones the checksum, the
  header, the first bytes and the plausibility of the count are checked, and a consumer refuses what it cannot open.
- **A batch that is opened** may hold 32 times `max.message.bytes`, 64 MiB at most; Kafka has no limit. Offsets in it
  that do not follow one another are refused; Kafka numbers such records anew. Broken compression is INVALID_RECORD,
  so that nobody sends it again; some codecs make it UNKNOWN_SERVER_ERROR or CORRUPT_MESSAGE in Kafka.
- **Records that are refused** are named in `record_errors` up to 1,000 a batch; Kafka names all.
- **`compression.lz4.level`** is stored and changes nothing; a level of zstd above 9 counts for batches of
  up to 4 MiB of records, and 9 is taken for larger ones.
- **A member of a streams group that has other tasks than it was told** is told them again; Kafka tells them when they
  change. A topology that says the same in another order is the same one, and a group has at most 10,000 tasks.
- **A request has at most 131,072 elements** in all its arrays together; one with more closes its connection.
- **Records that wait for acks=all when the ISR becomes too small** wait on: they are acknowledged when it has grown
  again, or answered with REQUEST_TIMED_OUT; NOT_ENOUGH_REPLICAS_AFTER_APPEND is never said. Kafka 4 does the same but
  for a race.
- **A follower's fetch offset** is what it has on disk where records are flushed before they are acknowledged; Kafka's
  says what was appended. `replica.fetch.wait.max.ms` is 100 unless set, Kafka's 500.
- **The high watermark of a follower** may be `replica.fetch.wait.max.ms` late when nothing is written, and consumers
  that read from it (`replica.selector.class`) get the last records that much later. Kafka's leaders tell it at once.
- **A consumer that asks a follower beyond its log** is told NOT_LEADER_OR_FOLLOWER: only the leader knows the range.
  Kafka says OFFSET_OUT_OF_RANGE, and who asked there by mistake begins anew at one end of it.
- **Who holds the high watermark back** without being in the ISR is a follower whose last fetch began where the log
  ended at the one before; Kafka's is any that had everything within `replica.lag.time.max.ms`, also one that has much
  to fetch.
"""

LEFT_OUT = {
    ApiKey.FETCH: "only brokers of the cluster, proved to be, fetch as replicas",
    ApiKey.LIST_OFFSETS: "nothing is tiered: -5 and -6 find no offset, -4 is -2",
    ApiKey.FIND_COORDINATOR: "groups and transactions; share groups have no coordinator here",
    ApiKey.DESCRIBE_ACLS: "there is no authorizer: SECURITY_DISABLED",
    ApiKey.CREATE_ACLS: "there is no authorizer: SECURITY_DISABLED",
    ApiKey.DELETE_ACLS: "there is no authorizer: SECURITY_DISABLED",
    ApiKey.CREATE_DELEGATION_TOKEN: "nobody is authenticated: no token is given",
    ApiKey.RENEW_DELEGATION_TOKEN: "nobody is authenticated: no token is renewed",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "nobody is authenticated: no token is ended",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "nobody is authenticated: no token is shown",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "no user has credentials",
    ApiKey.DESCRIBE_QUORUM: "the metadata store: the controller is its one voter",
    ApiKey.UPDATE_FEATURES: "the features that are served",
    ApiKey.DESCRIBE_LOG_DIRS: "no directory is ever cordoned",
    ApiKey.DESCRIBE_CLUSTER: "brokers; controllers have no address of their own",
    ApiKey.ENVELOPE: "between brokers",
    ApiKey.ALTER_PARTITION: "between brokers; 2 does not say which life of a broker is meant",
    ApiKey.BROKER_HEARTBEAT: "between brokers",
    ApiKey.ALLOCATE_PRODUCER_IDS: "between brokers",
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: "between brokers",
    ApiKey.SASL_HANDSHAKE: "version 0 has no headers behind it; brokers prove who they are, users do not yet",
    ApiKey.SASL_AUTHENTICATE: "SCRAM-SHA-512 between brokers",
}
"""What a served API does not do."""

WHY_NOT = {
    "SASL": {
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    },
    "the KRaft quorum, which Ottla has not": {
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    },
    "share groups (KIP-932)": {
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    },
}


def settings_table(definitions: Mapping[str, SettingDefinition]) -> list[str]:
    """One row a setting."""
    rows = ["| setting | type | default | changed while running | what it does |", "|---|---|---|---|---|"]
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
    lines += ["", "## Kafka's settings that are passed over", "", *PASSED_OVER, ""]
    lines += reasons_table(IGNORED_PREFIXES)
    lines += ["", "## Kafka's settings that are refused", "", *REFUSED, ""]
    unsupported = {f"{name} (topic)": each.reason for name, each in UNSUPPORTED_TOPIC_SETTINGS.items()}
    lines += reasons_table({**REFUSED_PREFIXES, **unsupported})
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
