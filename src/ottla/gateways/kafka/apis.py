"""Every API that the Kafka door serves, in one table."""

from collections.abc import Mapping
from types import MappingProxyType

from ottla.gateways.kafka import (
    api_00_produce,
    api_01_fetch,
    api_02_list_offsets,
    api_03_metadata,
    api_08_offset_commit,
    api_09_offset_fetch,
    api_10_find_coordinator,
    api_11_join_group,
    api_12_heartbeat,
    api_13_leave_group,
    api_14_sync_group,
    api_15_describe_groups,
    api_16_list_groups,
    api_18_api_versions,
    api_19_create_topics,
    api_20_delete_topics,
    api_21_delete_records,
    api_22_init_producer_id,
    api_23_offset_for_leader_epoch,
    api_32_describe_configs,
    api_33_alter_configs,
    api_35_describe_log_dirs,
    api_37_create_partitions,
    api_42_delete_groups,
    api_43_elect_leaders,
    api_44_incremental_alter_configs,
    api_46_list_partition_reassignments,
    api_47_offset_delete,
    api_60_describe_cluster,
    api_61_describe_producers,
    api_74_list_config_resources,
    api_75_describe_topic_partitions,
)
from ottla.gateways.kafka.api import Api

APIS: Mapping[int, Api] = MappingProxyType(
    {
        int(api.key): api
        for api in (
            api_00_produce.API,
            api_01_fetch.API,
            api_02_list_offsets.API,
            api_03_metadata.API,
            api_08_offset_commit.API,
            api_09_offset_fetch.API,
            api_10_find_coordinator.API,
            api_11_join_group.API,
            api_12_heartbeat.API,
            api_13_leave_group.API,
            api_14_sync_group.API,
            api_15_describe_groups.API,
            api_16_list_groups.API,
            api_18_api_versions.API,
            api_19_create_topics.API,
            api_20_delete_topics.API,
            api_21_delete_records.API,
            api_22_init_producer_id.API,
            api_23_offset_for_leader_epoch.API,
            api_32_describe_configs.API,
            api_33_alter_configs.API,
            api_35_describe_log_dirs.API,
            api_37_create_partitions.API,
            api_42_delete_groups.API,
            api_43_elect_leaders.API,
            api_44_incremental_alter_configs.API,
            api_46_list_partition_reassignments.API,
            api_47_offset_delete.API,
            api_60_describe_cluster.API,
            api_61_describe_producers.API,
            api_74_list_config_resources.API,
            api_75_describe_topic_partitions.API,
        )
    }
)
"""The APIs by key."""
