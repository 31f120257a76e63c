"""From one image to the next: records are replayed onto a delta, which then makes the new image.

    image ---- records ----> delta ---- to_image() ----> new image
                               |
                               +--> what changed, for those who act on it

Only what a record touches is copied, once per delta however many records touch it.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from msgspec.structs import replace

from ottla.metadata.image.image import (
    BrokerImage,
    ConfigResource,
    ConfigResourceType,
    MetadataImage,
    PartitionImage,
    TopicImage,
    topic_resource,
)
from ottla.metadata.records import (
    AclRecord,
    BrokerChangedRecord,
    BrokerDirectoriesRecord,
    BrokerRegisteredRecord,
    BrokerRemovedRecord,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangedRecord,
    PartitionsAddedRecord,
    PartitionsChangedRecord,
    PartitionState,
    ProducerIdsRecord,
    ReplicaDirectoriesRecord,
    ScramCredentialRecord,
    TopicRecord,
    TopicRemovedRecord,
)
from ottla.model.acl import AclBinding
from ottla.model.delegation_token import DelegationToken
from ottla.model.errors import InvalidInputError
from ottla.model.quota_entity import QuotaEntity
from ottla.model.scram_credential import ScramCredential


class MetadataDelta:
    """What some records change in `base`. Fill it with `replay`, then read it and take `to_image()`.

    A topic made and removed by the same records is in neither `created_topics` nor `deleted_topics`.
    """

    def __init__(self, base: MetadataImage) -> None:
        self.base = base
        self.touched_topics: dict[UUID, TopicImage | None] = {}
        """The new image of each topic that a record touched; None for one that was removed."""
        self.changed_configs: set[ConfigResource] = set()
        """Resources with another setting than before, without those of removed topics."""
        self.changed_brokers: set[int] = set()
        """Brokers that came, went, came back, or were fenced or are not any more."""
        self._configs: dict[ConfigResource, dict[str, str]] = {}
        self._brokers: dict[int, BrokerImage] | None = None
        self._replica_counts: dict[int, int] | None = None
        self._names: dict[str, UUID | None] = {}
        self._changing: dict[UUID, list[PartitionImage]] = {}
        self._controller = (base.controller_id, base.controller_epoch)
        self._next_producer_id = base.next_producer_id
        self._feature_levels: dict[str, int] | None = None
        self._client_quotas: dict[QuotaEntity, Mapping[str, float]] | None = None
        self._replica_directories: dict[UUID, Mapping[tuple[int, int], UUID]] | None = None
        self._acls: dict[AclBinding, None] | None = None
        self._scram_credentials: dict[str, Mapping[int, ScramCredential]] | None = None
        self._delegation_tokens: dict[str, DelegationToken] | None = None
        self._record_count = 0

    @property
    def has_changed_quotas(self) -> bool:
        """Whether a quota of a client is another than before."""
        return self._client_quotas is not None

    def mark_quotas_changed(self) -> None:
        """Have it say that a quota changed, whatever was replayed."""
        self._client_quotas = dict(self.base.client_quotas)

    @property
    def created_topics(self) -> list[TopicImage]:
        """Topics that `base` does not have."""
        before = self.base.topics_by_id
        return [topic for topic_id, topic in self.touched_topics.items() if topic and topic_id not in before]

    @property
    def changed_topics(self) -> list[TopicImage]:
        """Topics of `base` with other partitions than before, in their new form."""
        before = self.base.topics_by_id
        return [topic for topic_id, topic in self.touched_topics.items() if topic and topic_id in before]

    @property
    def deleted_topics(self) -> list[TopicImage]:
        """Topics of `base` that are gone, as they were."""
        before = self.base.topics_by_id
        return [before[topic_id] for topic_id, topic in self.touched_topics.items() if not topic and topic_id in before]

    def replay(self, records: Iterable[MetadataRecord]) -> None:
        """Take records in, in their order.

        Raises InvalidInputError for a record that contradicts the image: then the log is damaged.
        """
        for record in records:
            self._record_count += 1
            _REPLAY[type(record)](self, record)
        for topic_id in list(self._changing):
            self._find_topic(topic_id)

    def to_image(self) -> MetadataImage:
        """The image after the records."""
        by_name, by_id = self.base.topics_by_name, self.base.topics_by_id
        if self.touched_topics:
            by_name, by_id = self._topics()
        configs: Mapping[ConfigResource, Mapping[str, str]] = self.base.configs
        if self._configs:
            merged = {**configs, **self._configs}
            configs = {resource: settings for resource, settings in merged.items() if settings}
        controller_id, controller_epoch = self._controller
        return MetadataImage(
            cluster_id=self.base.cluster_id,
            end_offset=self.base.end_offset + self._record_count,
            controller_id=controller_id,
            controller_epoch=controller_epoch,
            next_producer_id=self._next_producer_id,
            brokers=self.base.brokers if self._brokers is None else self._brokers,
            topics_by_name=by_name,
            topics_by_id=by_id,
            configs=configs,
            replica_counts=self.base.replica_counts if self._replica_counts is None else self._replica_counts,
            feature_levels=self.base.feature_levels if self._feature_levels is None else self._feature_levels,
            client_quotas=self.base.client_quotas if self._client_quotas is None else self._client_quotas,
            replica_directories=self._directories_of_replicas(),
            acls=self.base.acls if self._acls is None else self._acls,
            scram_credentials=(
                self.base.scram_credentials if self._scram_credentials is None else self._scram_credentials
            ),
            delegation_tokens=(
                self.base.delegation_tokens if self._delegation_tokens is None else self._delegation_tokens
            ),
        )

    def _directories_of_replicas(self) -> Mapping[UUID, Mapping[tuple[int, int], UUID]]:
        """Those that are told, without those of replicas that are no more."""
        known = self.base.replica_directories if self._replica_directories is None else self._replica_directories
        touched = [topic_id for topic_id in self.touched_topics if topic_id in known]
        if not touched:
            return known
        kept = dict(known)
        for topic_id in touched:
            topic, places = self.touched_topics[topic_id], kept.pop(topic_id)
            if topic is not None:
                places = {
                    (index, broker_id): directory_id
                    for (index, broker_id), directory_id in places.items()
                    if broker_id in topic.partitions[index].replicas
                }
                if places:
                    kept[topic_id] = places
        return kept

    def _topics(self) -> tuple[dict[str, TopicImage], dict[UUID, TopicImage]]:
        by_name, by_id = dict(self.base.topics_by_name), dict(self.base.topics_by_id)
        for topic_id in self.touched_topics:
            removed = by_id.pop(topic_id, None)
            if removed is not None:
                del by_name[removed.name]
        for topic_id, topic in self.touched_topics.items():
            if topic is not None:
                by_name[topic.name] = by_id[topic_id] = topic
        return by_name, by_id

    def _find_topic(self, topic_id: UUID) -> TopicImage:
        partitions = self._changing.pop(topic_id, None)
        topic = self._topic_before(topic_id)
        if partitions is not None:
            topic = self.touched_topics[topic_id] = TopicImage(topic.name, topic.topic_id, tuple(partitions))
        return topic

    def _topic_before(self, topic_id: UUID) -> TopicImage:
        """The topic without the changes of single partitions that `_changing` collects."""
        if topic_id in self.touched_topics:
            topic = self.touched_topics[topic_id]
        else:
            topic = self.base.topics_by_id.get(topic_id)
        if topic is None:
            raise InvalidInputError(f"a metadata record names the topic id {topic_id}, which is not there")
        return topic

    def _topic_id(self, name: str) -> UUID | None:
        if name in self._names:
            return self._names[name]
        topic = self.base.topics_by_name.get(name)
        return topic.topic_id if topic is not None else None

    def _topic(self, record: TopicRecord) -> None:
        if self._topic_id(record.name) is not None:
            raise InvalidInputError(f"the metadata log makes the topic {record.name} a second time")
        partitions = tuple(PartitionImage.from_state(index, state) for index, state in enumerate(record.partitions))
        self.touched_topics[record.topic_id] = TopicImage(record.name, record.topic_id, partitions)
        self._names[record.name] = record.topic_id
        for state in record.partitions:
            self._count_replicas(state.replicas, 1)

    def _partitions_added(self, record: PartitionsAddedRecord) -> None:
        topic = self._find_topic(record.topic_id)
        added = (
            PartitionImage.from_state(index, state)
            for index, state in enumerate(record.partitions, len(topic.partitions))
        )
        self.touched_topics[record.topic_id] = TopicImage(topic.name, topic.topic_id, (*topic.partitions, *added))
        for state in record.partitions:
            self._count_replicas(state.replicas, 1)

    def _partition_changed(self, record: PartitionChangedRecord) -> None:
        self._change(record.topic_id, ((record.index, record.state),))

    def _partitions_changed(self, record: PartitionsChangedRecord) -> None:
        self._change(record.topic_id, record.changes)

    def _change(self, topic_id: UUID, changes: Iterable[tuple[int, PartitionState]]) -> None:
        """A broker's death changes each partition of a topic by itself: the list is copied once for all of them."""
        partitions = self._changing.get(topic_id)
        if partitions is None:
            partitions = list(self._topic_before(topic_id).partitions)
            self._changing[topic_id] = partitions
        for index, state in changes:
            if not 0 <= index < len(partitions):
                topic = self._topic_before(topic_id)
                raise InvalidInputError(f"a metadata record names the partition {topic.name}-{index}, not there")
            before = partitions[index].replicas
            if state.replicas != before:
                self._count_replicas(before, -1)
                self._count_replicas(state.replicas, 1)
            partitions[index] = PartitionImage.from_state(index, state)

    def _topic_removed(self, record: TopicRemovedRecord) -> None:
        topic = self._find_topic(record.topic_id)
        self.touched_topics[record.topic_id] = None
        self._names[topic.name] = None
        for partition in topic.partitions:
            self._count_replicas(partition.replicas, -1)
        resource = topic_resource(topic.name)
        self.changed_configs.discard(resource)
        if resource in self._configs or resource in self.base.configs:
            self._configs[resource] = {}

    def _config(self, record: ConfigRecord) -> None:
        resource = ConfigResource(ConfigResourceType(record.resource_type), record.resource_name)
        settings = self._configs.get(resource)
        if settings is None:
            settings = self._configs[resource] = dict(self.base.config(resource))
        if record.value is None:
            settings.pop(record.key, None)
        else:
            settings[record.key] = record.value
        self.changed_configs.add(resource)

    def _broker_registered(self, record: BrokerRegisteredRecord) -> None:
        self._changing_brokers()[record.broker_id] = BrokerImage(
            *(getattr(record, name) for name in BrokerImage.__struct_fields__)
        )
        self.changed_brokers.add(record.broker_id)

    def _broker_changed(self, record: BrokerChangedRecord) -> None:
        broker = self._changing_broker(record)
        self._changing_brokers()[record.broker_id] = replace(
            broker, fenced=record.fenced, shutting_down=record.shutting_down
        )

    def _directories_failed(self, record: BrokerDirectoriesRecord) -> None:
        self._changing_brokers()[record.broker_id] = replace(self._changing_broker(record), offline=record.offline)

    def _changing_broker(self, record: BrokerChangedRecord | BrokerDirectoriesRecord) -> BrokerImage:
        broker = self._changing_brokers().get(record.broker_id)
        if broker is None or broker.broker_epoch != record.broker_epoch:
            raise InvalidInputError(
                f"a metadata record names broker {record.broker_id} of epoch {record.broker_epoch}, not there"
            )
        self.changed_brokers.add(record.broker_id)
        return broker

    def _broker_removed(self, record: BrokerRemovedRecord) -> None:
        self._changing_brokers().pop(record.broker_id, None)
        self.changed_brokers.add(record.broker_id)

    def _changing_brokers(self) -> dict[int, BrokerImage]:
        if self._brokers is None:
            self._brokers = dict(self.base.brokers)
        return self._brokers

    def _controller_elected(self, record: ControllerRecord) -> None:
        self._controller = (record.broker_id, record.controller_epoch)

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        if record.next_producer_id < self._next_producer_id:
            raise InvalidInputError(f"the metadata log gives producer id {record.next_producer_id} out again")
        self._next_producer_id = record.next_producer_id

    def _client_quota(self, record: ClientQuotaRecord) -> None:
        if self._client_quotas is None:
            self._client_quotas = dict(self.base.client_quotas)
        values = dict(self._client_quotas.get(record.entity, ()))
        if record.value is None:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            self._client_quotas[record.entity] = values
        else:
            self._client_quotas.pop(record.entity, None)

    def _replicas_placed(self, record: ReplicaDirectoriesRecord) -> None:
        topic = self._topic_before(record.topic_id)
        if self._replica_directories is None:
            self._replica_directories = dict(self.base.replica_directories)
        places: dict[tuple[int, int], UUID] = dict(self._replica_directories.get(record.topic_id, {}))
        for index, directory_id in record.places:
            if not 0 <= index < len(topic.partitions):
                raise InvalidInputError(f"a metadata record names the partition {topic.name}-{index}, not there")
            places[index, record.broker_id] = directory_id
        self._replica_directories[record.topic_id] = places

    def _acl(self, record: AclRecord) -> None:
        if self._acls is None:
            self._acls = dict(self.base.acls)
        if record.exists:
            self._acls[record.acl] = None
        else:
            self._acls.pop(record.acl, None)

    def _scram_credential(self, record: ScramCredentialRecord) -> None:
        if self._scram_credentials is None:
            self._scram_credentials = dict(self.base.scram_credentials)
        of_user = dict(self._scram_credentials.pop(record.user, {}))
        if record.credential is None:
            of_user.pop(record.mechanism, None)
        else:
            of_user[record.mechanism] = record.credential
        if of_user:
            self._scram_credentials[record.user] = of_user

    def _delegation_token(self, record: DelegationTokenRecord) -> None:
        if self._delegation_tokens is None:
            self._delegation_tokens = dict(self.base.delegation_tokens)
        if record.token is None:
            self._delegation_tokens.pop(record.token_id, None)
        else:
            self._delegation_tokens[record.token_id] = record.token

    def _feature_level(self, record: FeatureLevelRecord) -> None:
        if self._feature_levels is None:
            self._feature_levels = dict(self.base.feature_levels)
        self._feature_levels[record.name] = record.level

    def _count_replicas(self, replicas: Iterable[int], step: int) -> None:
        if self._replica_counts is None:
            self._replica_counts = dict(self.base.replica_counts)
        counts = self._replica_counts
        for broker_id in replicas:
            counts[broker_id] = counts.get(broker_id, 0) + step


_REPLAY: Final[Mapping[type[MetadataRecord], Callable[[MetadataDelta, Any], None]]] = MappingProxyType(
    {
        TopicRecord: MetadataDelta._topic,
        PartitionsAddedRecord: MetadataDelta._partitions_added,
        PartitionChangedRecord: MetadataDelta._partition_changed,
        PartitionsChangedRecord: MetadataDelta._partitions_changed,
        TopicRemovedRecord: MetadataDelta._topic_removed,
        ConfigRecord: MetadataDelta._config,
        BrokerRegisteredRecord: MetadataDelta._broker_registered,
        BrokerChangedRecord: MetadataDelta._broker_changed,
        BrokerDirectoriesRecord: MetadataDelta._directories_failed,
        BrokerRemovedRecord: MetadataDelta._broker_removed,
        ControllerRecord: MetadataDelta._controller_elected,
        ProducerIdsRecord: MetadataDelta._producer_ids,
        FeatureLevelRecord: MetadataDelta._feature_level,
        ClientQuotaRecord: MetadataDelta._client_quota,
        ReplicaDirectoriesRecord: MetadataDelta._replicas_placed,
        AclRecord: MetadataDelta._acl,
        ScramCredentialRecord: MetadataDelta._scram_credential,
        DelegationTokenRecord: MetadataDelta._delegation_token,
    }
)


def apply_records(image: MetadataImage, records: Iterable[MetadataRecord]) -> tuple[MetadataImage, MetadataDelta]:
    """The image after the records, and what they changed."""
    delta = MetadataDelta(image)
    delta.replay(records)
    return delta.to_image(), delta


def snapshot_records(image: MetadataImage) -> list[MetadataRecord]:
    """Records that make an image like this one from an empty one."""
    records: list[MetadataRecord] = [ControllerRecord(image.controller_id, image.controller_epoch)]
    records.append(ProducerIdsRecord(image.next_producer_id))
    records.extend(FeatureLevelRecord(name, level) for name, level in sorted(image.feature_levels.items()))
    records.extend(
        ClientQuotaRecord(entity, key, value)
        for entity, values in image.client_quotas.items()
        for key, value in sorted(values.items())
    )
    records.extend(
        BrokerRegisteredRecord(*(getattr(broker, name) for name in BrokerImage.__struct_fields__))
        for broker in image.brokers.values()
    )
    records.extend(
        TopicRecord(topic.name, topic.topic_id, tuple(partition.state for partition in topic.partitions))
        for topic in image.topics()
    )
    records.extend(_replica_directories(image))
    records.extend(AclRecord(acl, True) for acl in image.acls)
    records.extend(
        ScramCredentialRecord(user, mechanism, credential)
        for user, of_user in image.scram_credentials.items()
        for mechanism, credential in sorted(of_user.items())
    )
    records.extend(DelegationTokenRecord(token_id, token) for token_id, token in image.delegation_tokens.items())
    records.extend(
        ConfigRecord(resource.type, resource.name, key, value)
        for resource, settings in sorted(image.configs.items())
        for key, value in sorted(settings.items())
    )
    return records


def _replica_directories(image: MetadataImage) -> Iterable[ReplicaDirectoriesRecord]:
    for topic_id, places in image.replica_directories.items():
        of_brokers: dict[int, list[tuple[int, UUID]]] = {}
        for (index, broker_id), directory_id in sorted(places.items()):
            of_brokers.setdefault(broker_id, []).append((index, directory_id))
        for broker_id, of_broker in of_brokers.items():
            yield ReplicaDirectoriesRecord(broker_id, topic_id, tuple(of_broker))


def image_from_snapshot(cluster_id: str, records: Iterable[MetadataRecord], end_offset: int) -> MetadataImage:
    """The image a snapshot stands for; `end_offset` is the offset of the first record after it."""
    image, _ = apply_records(MetadataImage(cluster_id), records)
    return replace(image, end_offset=end_offset)
