"""Every API that the Kafka door serves, in one table."""

from typing import Final

from ottla.gateways.kafka.api_table import ApiTable, Row
from ottla.protocol.api_keys import ApiKey

APIS: Final = ApiTable(
    (
        # key, versions from and to, file; and the version that is told as the first where that is another
        Row(ApiKey.PRODUCE, 3, 13, "api_00_produce", 0),
        Row(ApiKey.FETCH, 4, 18, "api_01_fetch"),
        Row(ApiKey.LIST_OFFSETS, 1, 11, "api_02_list_offsets"),
        Row(ApiKey.METADATA, 0, 13, "api_03_metadata"),
        Row(ApiKey.OFFSET_COMMIT, 2, 10, "api_08_offset_commit"),
        Row(ApiKey.OFFSET_FETCH, 1, 10, "api_09_offset_fetch"),
        Row(ApiKey.FIND_COORDINATOR, 0, 6, "api_10_find_coordinator"),
        Row(ApiKey.JOIN_GROUP, 0, 9, "api_11_join_group"),
        Row(ApiKey.HEARTBEAT, 0, 4, "api_12_heartbeat"),
        Row(ApiKey.LEAVE_GROUP, 0, 5, "api_13_leave_group"),
        Row(ApiKey.SYNC_GROUP, 0, 5, "api_14_sync_group"),
        Row(ApiKey.DESCRIBE_GROUPS, 0, 6, "api_15_describe_groups"),
        Row(ApiKey.LIST_GROUPS, 0, 5, "api_16_list_groups"),
        Row(ApiKey.API_VERSIONS, 0, 4, "api_18_api_versions"),
        Row(ApiKey.CREATE_TOPICS, 2, 7, "api_19_create_topics"),
        Row(ApiKey.DELETE_TOPICS, 1, 6, "api_20_delete_topics"),
        Row(ApiKey.DELETE_RECORDS, 0, 2, "api_21_delete_records"),
        Row(ApiKey.INIT_PRODUCER_ID, 0, 5, "api_22_init_producer_id"),
        Row(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, "api_23_offset_for_leader_epoch"),
        Row(ApiKey.WRITE_TXN_MARKERS, 1, 2, "api_27_write_txn_markers"),
        Row(ApiKey.DESCRIBE_ACLS, 1, 3, "api_29_describe_acls"),
        Row(ApiKey.CREATE_ACLS, 1, 3, "api_30_create_acls"),
        Row(ApiKey.DELETE_ACLS, 1, 3, "api_31_delete_acls"),
        Row(ApiKey.DESCRIBE_CONFIGS, 1, 4, "api_32_describe_configs"),
        Row(ApiKey.ALTER_CONFIGS, 0, 2, "api_33_alter_configs"),
        Row(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, "api_35_describe_log_dirs"),
        Row(ApiKey.CREATE_PARTITIONS, 0, 3, "api_37_create_partitions"),
        Row(ApiKey.CREATE_DELEGATION_TOKEN, 1, 3, "api_38_create_delegation_token"),
        Row(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2, "api_39_renew_delegation_token"),
        Row(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2, "api_40_expire_delegation_token"),
        Row(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3, "api_41_describe_delegation_token"),
        Row(ApiKey.DELETE_GROUPS, 0, 2, "api_42_delete_groups"),
        Row(ApiKey.ELECT_LEADERS, 0, 2, "api_43_elect_leaders"),
        Row(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, "api_44_incremental_alter_configs"),
        Row(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, "api_45_alter_partition_reassignments"),
        Row(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, "api_46_list_partition_reassignments"),
        Row(ApiKey.OFFSET_DELETE, 0, 0, "api_47_offset_delete"),
        Row(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, "api_48_describe_client_quotas"),
        Row(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, "api_49_alter_client_quotas"),
        Row(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, "api_50_describe_user_scram_credentials"),
        Row(ApiKey.DESCRIBE_QUORUM, 0, 2, "api_55_describe_quorum"),
        Row(ApiKey.UPDATE_FEATURES, 0, 2, "api_57_update_features"),
        Row(ApiKey.DESCRIBE_CLUSTER, 0, 2, "api_60_describe_cluster"),
        Row(ApiKey.DESCRIBE_PRODUCERS, 0, 0, "api_61_describe_producers"),
        Row(ApiKey.UNREGISTER_BROKER, 0, 0, "api_64_unregister_broker"),
        Row(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, "api_68_consumer_group_heartbeat"),
        Row(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, "api_69_consumer_group_describe"),
        Row(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, "api_74_list_config_resources"),
        Row(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, "api_75_describe_topic_partitions"),
        Row(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, 0, "api_88_streams_group_heartbeat"),
        Row(ApiKey.STREAMS_GROUP_DESCRIBE, 0, 0, "api_89_streams_group_describe"),
    )
)
"""The APIs by key."""
