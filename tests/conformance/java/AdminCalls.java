import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/**
 * What the admin client asks of one broker. Arguments: bootstrap, topic of one partition with the numbers from 0 to 99
 * and timestamps from 1000 on, name of a topic and a group that are not there yet.
 */
public final class AdminCalls {
    private final Admin admin;
    private final TopicPartition partition;
    private final String fresh;

    private AdminCalls(Admin admin, TopicPartition partition, String fresh) {
        this.admin = admin;
        this.partition = partition;
        this.fresh = fresh;
    }

    public static void main(String[] args) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            AdminCalls calls = new AdminCalls(admin, new TopicPartition(args[1], 0), args[2]);
            calls.cluster();
            calls.topics();
            calls.offsets();
            calls.configs();
            calls.partition();
            calls.groups();
        }
    }

    private void cluster() throws Exception {
        Collection<Node> nodes = admin.describeCluster().nodes().get();
        Facts.print(
                "nodes", nodes.stream().map(Node::id).toList(),
                "controller", admin.describeCluster().controller().get().id(),
                "cluster id", admin.describeCluster().clusterId().get().length());
    }

    private void topics() throws Exception {
        admin.createTopics(List.of(new NewTopic(fresh, 2, (short) -1))).all().get();
        admin.createPartitions(Map.of(fresh, NewPartitions.increaseTo(3))).all().get();
        TopicDescription described = admin.describeTopics(List.of(fresh)).allTopicNames().get().get(fresh);
        boolean listed = admin.listTopics().names().get().contains(fresh);
        Facts.print("partitions", described.partitions().size(), "listed", listed, "internal", described.isInternal());
        admin.deleteTopics(List.of(fresh)).all().get();
        Facts.print("deleted", !admin.listTopics().names().get().contains(fresh));
    }

    private void offsets() throws Exception {
        TreeMap<String, OffsetSpec> specs = new TreeMap<>(Map.of(
                "earliest", OffsetSpec.earliest(),
                "latest", OffsetSpec.latest(),
                "max timestamp", OffsetSpec.maxTimestamp(),
                "timestamp", OffsetSpec.forTimestamp(1050),
                "later", OffsetSpec.forTimestamp(5000),
                "earliest local", OffsetSpec.earliestLocal(),
                "latest tiered", OffsetSpec.latestTiered(),
                "earliest pending upload", OffsetSpec.earliestPendingUpload()));
        for (Map.Entry<String, OffsetSpec> spec : specs.entrySet()) {
            ListOffsetsResultInfo found =
                    admin.listOffsets(Map.of(partition, spec.getValue())).partitionResult(partition).get();
            Facts.print("spec", spec.getKey(), "offset", found.offset(), "timestamp", found.timestamp(),
                    "epoch", found.leaderEpoch().orElse(-1));
        }
    }

    private void configs() throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, partition.topic());
        admin.incrementalAlterConfigs(Map.of(topic, List.of(
                        new AlterConfigOp(new ConfigEntry("segment.ms", "90000"), AlterConfigOp.OpType.SET),
                        new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.APPEND))))
                .all()
                .get();
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        DescribeConfigsOptions full = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        for (ConfigResource resource : List.of(topic, broker)) {
            Collection<ConfigEntry> entries =
                    admin.describeConfigs(List.of(resource), full).all().get().get(resource).entries();
            List<String> undocumented = entries.stream()
                    .filter(entry -> entry.documentation() == null || entry.documentation().isBlank())
                    .map(ConfigEntry::name)
                    .toList();
            List<String> untyped = entries.stream()
                    .filter(entry -> entry.type() == ConfigEntry.ConfigType.UNKNOWN)
                    .map(ConfigEntry::name)
                    .toList();
            Facts.print("undocumented", undocumented, "untyped", untyped, "many", entries.size() > 15);
            for (String name : List.of("segment.ms", "cleanup.policy", "num.partitions")) {
                for (ConfigEntry entry : entries) {
                    if (entry.name().equals(name)) {
                        Facts.print("name", name, "value", entry.value(), "source", entry.source().name(),
                                "type", entry.type().name(), "synonym", entry.synonyms().get(0).name());
                    }
                }
            }
        }
        Set<String> kinds = new TreeSet<>();
        admin.listConfigResources().all().get().forEach(resource -> kinds.add(resource.type().name()));
        Facts.print("resources", kinds.containsAll(Set.of("TOPIC", "BROKER")));
    }

    private void partition() throws Exception {
        ProducerState producer = admin.describeProducers(List.of(partition))
                .partitionResult(partition)
                .get()
                .activeProducers()
                .get(0);
        Facts.print("last sequence", producer.lastSequence(), "epoch", producer.producerEpoch());
        Facts.print("low watermark", admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(40)))
                .lowWatermarks()
                .get(partition)
                .get()
                .lowWatermark());
        LogDirDescription directory = admin.describeLogDirs(List.of(1))
                .allDescriptions()
                .get()
                .get(1)
                .values()
                .iterator()
                .next();
        Facts.print(
                "size", directory.replicaInfos().get(partition).size() > 0,
                "total", directory.totalBytes().isPresent(),
                "usable", directory.usableBytes().isPresent());
        try {
            admin.electLeaders(ElectionType.PREFERRED, Set.of(partition)).all().get();
        } catch (ExecutionException thrown) {
            Facts.print("election", thrown.getCause().getClass().getSimpleName());
        }
    }

    private void groups() throws Exception {
        admin.alterConsumerGroupOffsets(fresh, Map.of(partition, new OffsetAndMetadata(50, "noted"))).all().get();
        OffsetAndMetadata offset = admin.listConsumerGroupOffsets(fresh)
                .partitionsToOffsetAndMetadata()
                .get()
                .get(partition);
        Facts.print("group offset", offset.offset(), "metadata", offset.metadata());
        Facts.print(
                "listed",
                admin.listGroups().all().get().stream().anyMatch(group -> group.groupId().equals(fresh)),
                "state",
                admin.describeConsumerGroups(List.of(fresh)).all().get().get(fresh).groupState().name());
        admin.deleteConsumerGroupOffsets(fresh, Set.of(partition)).all().get();
        try {
            admin.deleteConsumerGroups(List.of(fresh)).all().get();
            Facts.print("group deleted", true);
        } catch (ExecutionException thrown) {
            // Kafka drops a group with its last offset, sooner or later.
            Facts.print("group deleted", thrown.getCause().getClass().getSimpleName().equals("GroupIdNotFoundException"));
        }
    }
}
