/* The load of every row, made with librdkafka so that the client is never the limit and is the same for each broker.
 *
 *   load produce BOOTSTRAP TOPIC --size 100 --count N [--seconds S] [--partitions P] [-X key=value]...
 *   load paced   BOOTSTRAP TOPIC --size 100 --rate 1000 --seconds 10 [--skip RECORDS] [-X key=value]...
 *   load consume BOOTSTRAP TOPIC --count N [--partitions P] [-X key=value]...
 *   load receive BOOTSTRAP TOPIC --count N [--skip RECORDS] [-X key=value]...
 *
 * produce  sends as fast as it can until N records or S seconds, and waits for every acknowledgement. One record for each
 *          partition goes before, uncounted, so that connections and metadata are there.
 * paced    sends at a rate, the time of sending (CLOCK_MONOTONIC, ns) in the first 8 bytes of each record, and reports how
 *          long acknowledgements took. Sending never waits for one. The first --skip records are not counted.
 * consume  reads N records from the beginning as fast as it can; the clock starts with the first one.
 * receive  reads what `paced` sends from now on, one record at a time, and reports the time since it was sent. Prints
 *          "ready" when it stands at the end of the partition.
 *
 * -X is a setting of librdkafka. The result is one JSON object on stdout; on failure a line on stderr and exit code 1.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include "librdkafka.h"

enum { PRODUCE_BATCH = 500, CONSUME_BATCH = 10000, PARTITIONS_MAX = 200000, SIZE_MAX_BYTES = 900000 };
enum { PATIENCE_MS = 60000, FLUSH_PATIENCE_MS = 300000 };

struct options {
    const char *mode, *bootstrap, *topic;
    size_t size;
    long count, skip;
    double seconds, rate;
    int32_t partitions;
    rd_kafka_conf_t *conf;
};

struct samples {
    int64_t *ns;
    long count, limit, skip;
};

static struct samples delays;
static long failed_count;
static char first_failure[256];
static volatile int finished;

static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void sleep_until(int64_t ns) {
    struct timespec t = {ns / 1000000000LL, ns % 1000000000LL};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char error[256];
    if (rd_kafka_conf_set(conf, name, value, error, sizeof error) != RD_KAFKA_CONF_OK)
        die("%s", error);
}

static struct options parse(int argc, char **argv) {
    struct options o = {.size = 100, .partitions = 1, .rate = 1000, .conf = rd_kafka_conf_new()};
    if (argc < 4)
        die("usage: load produce|paced|consume|receive BOOTSTRAP TOPIC [--name value]... (see the head of load.c)");
    o.mode = argv[1], o.bootstrap = argv[2], o.topic = argv[3];
    set(o.conf, "bootstrap.servers", o.bootstrap);
    set(o.conf, "log_level", "2");
    for (int i = 4; i < argc; i += 2) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (value == NULL) die("%s needs a value", name);
        if (!strcmp(name, "--size")) o.size = strtoul(value, NULL, 10);
        else if (!strcmp(name, "--count")) o.count = atol(value);
        else if (!strcmp(name, "--skip")) o.skip = atol(value);
        else if (!strcmp(name, "--seconds")) o.seconds = atof(value);
        else if (!strcmp(name, "--rate")) o.rate = atof(value);
        else if (!strcmp(name, "--partitions")) o.partitions = atoi(value);
        else if (!strcmp(name, "-X")) {
            char *setting = strdup(value), *equals = strchr(setting, '=');
            if (equals == NULL) die("-X takes key=value");
            *equals = 0;
            set(o.conf, setting, equals + 1);
            free(setting);
        } else die("%s is not known", name);
    }
    if (o.partitions < 1 || o.partitions > PARTITIONS_MAX) die("--partitions is out of range");
    if (o.size < sizeof(int64_t) || o.size > SIZE_MAX_BYTES) die("--size is out of range");
    return o;
}

static void keep(struct samples *s, int64_t ns) {
    if (s->skip > 0) s->skip--;
    else if (s->count < s->limit) s->ns[s->count++] = ns;
}

static void expect(struct samples *s, long limit, long skip) {
    s->ns = malloc(sizeof(int64_t) * (size_t)(limit > 0 ? limit : 1));
    if (s->ns == NULL) die("no memory for %ld samples", limit);
    s->limit = limit, s->skip = skip;
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static double quantile_ms(const struct samples *s, double q) {
    long index = (long)(q * (double)s->count);
    return (double)s->ns[index < s->count ? index : s->count - 1] / 1e6;
}

static double seconds_of(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

static void print_throughput(long records, size_t bytes, double seconds) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("{\"records\": %ld, \"bytes\": %zu, \"seconds\": %.6f, \"client_user_s\": %.2f, \"client_system_s\": %.2f, "
           "\"librdkafka\": \"%s\"}\n",
           records, bytes, seconds, seconds_of(used.ru_utime), seconds_of(used.ru_stime), rd_kafka_version_str());
}

static void print_delays(struct samples *s) {
    if (s->count == 0) die("no sample was taken");
    qsort(s->ns, (size_t)s->count, sizeof(int64_t), ascending);
    printf("{\"records\": %ld, \"p50_ms\": %.4f, \"p90_ms\": %.4f, \"p99_ms\": %.4f, \"p999_ms\": %.4f, \"max_ms\": %.4f}\n",
           s->count, quantile_ms(s, 0.5), quantile_ms(s, 0.9), quantile_ms(s, 0.99), quantile_ms(s, 0.999),
           quantile_ms(s, 1.0));
}

/* ---- producing ---- */

/* Called by the polling thread, and by the main one while it flushes. */
static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    (void)rk, (void)opaque;
    pthread_mutex_lock(&one_at_a_time);
    if (message->err) {
        if (failed_count++ == 0) snprintf(first_failure, sizeof first_failure, "%s", rd_kafka_err2str(message->err));
    } else if (delays.ns != NULL) {
        int64_t sent;
        memcpy(&sent, message->payload, sizeof sent);
        keep(&delays, now_ns() - sent);
    }
    pthread_mutex_unlock(&one_at_a_time);
}

static void *poll_until_finished(void *rk) {
    while (!finished) rd_kafka_poll(rk, 50);
    return NULL;
}

static rd_kafka_t *new_client(int type, rd_kafka_conf_t *conf) {
    char error[256];
    rd_kafka_t *rk = rd_kafka_new(type, conf, error, sizeof error);
    if (rk == NULL) die("%s", error);
    return rk;
}

static rd_kafka_topic_t *known_topic(rd_kafka_t *rk, const char *name) {
    const struct rd_kafka_metadata *metadata;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, name, NULL);
    int err = rd_kafka_metadata(rk, 0, topic, &metadata, PATIENCE_MS);
    if (err) die("no metadata of %s: %s", name, rd_kafka_err2str(err));
    rd_kafka_metadata_destroy(metadata);
    return topic;
}

static void settle(rd_kafka_t *rk) {
    int err = rd_kafka_flush(rk, FLUSH_PATIENCE_MS);
    if (err) die("%d records were not acknowledged in time", rd_kafka_outq_len(rk));
    if (failed_count) die("%ld records failed, the first: %s", failed_count, first_failure);
}

/* A payload that does not compress and that all messages share: librdkafka only reads it. */
static char *shared_payload(size_t size) {
    char *payload = malloc(size);
    uint64_t state = 88172645463325252ULL;
    for (size_t i = 0; i < size; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        payload[i] = (char)state;
    }
    return payload;
}

static void send_all(rd_kafka_topic_t *topic, rd_kafka_message_t *messages, int count) {
    int flags = RD_KAFKA_MSG_F_BLOCK | RD_KAFKA_MSG_F_PARTITION, queued = 0;
    while (queued < count && !failed_count)
        queued += rd_kafka_produce_batch(topic, 0, flags, messages + queued, count - queued);
}

static void produce(struct options *o) {
    static rd_kafka_message_t messages[PRODUCE_BATCH];
    pthread_t poller;
    if (o->count <= 0 && o->seconds <= 0) die("produce needs --count or --seconds");
    rd_kafka_conf_set_dr_msg_cb(o->conf, on_delivery);
    set(o->conf, "delivery.report.only.error", "true");
    rd_kafka_t *rk = new_client(RD_KAFKA_PRODUCER, o->conf);
    pthread_create(&poller, NULL, poll_until_finished, rk);
    rd_kafka_topic_t *topic = known_topic(rk, o->topic);
    char *payload = shared_payload(o->size);
    for (int i = 0; i < PRODUCE_BATCH; i++) messages[i].payload = payload, messages[i].len = o->size;
    for (int32_t p = 0; p < o->partitions; p++) {
        messages[0].partition = p;
        send_all(topic, messages, 1);
    }
    settle(rk);

    long sent = 0, limit = o->count > 0 ? o->count : 1L << 60;
    int32_t partition = 0;
    int64_t begun = now_ns(), until = o->seconds > 0 ? begun + (int64_t)(o->seconds * 1e9) : INT64_MAX;
    while (sent < limit && !failed_count && now_ns() < until) {
        int chunk = limit - sent < PRODUCE_BATCH ? (int)(limit - sent) : PRODUCE_BATCH;
        for (int i = 0; i < chunk; i++) {
            messages[i].partition = partition;
            if (++partition == o->partitions) partition = 0;
        }
        send_all(topic, messages, chunk);
        sent += chunk;
    }
    settle(rk);
    print_throughput(sent, (size_t)sent * o->size, (double)(now_ns() - begun) / 1e9);
    finished = 1;
    pthread_join(poller, NULL);
}

static void paced(struct options *o) {
    pthread_t poller;
    long count = (long)(o->rate * o->seconds);
    if (count <= o->skip) die("paced needs --rate and --seconds for more than --skip records");
    expect(&delays, count - o->skip, o->skip + 1); /* and the first, uncounted one */
    rd_kafka_conf_set_dr_msg_cb(o->conf, on_delivery);
    rd_kafka_t *rk = new_client(RD_KAFKA_PRODUCER, o->conf);
    pthread_create(&poller, NULL, poll_until_finished, rk);
    rd_kafka_topic_t *topic = known_topic(rk, o->topic);
    char *payload = shared_payload(o->size);
    prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
    for (long i = -1, begun = 0; i < count; i++) {
        if (i >= 0) sleep_until(begun + (int64_t)((double)i * 1e9 / o->rate));
        int64_t now = now_ns();
        memcpy(payload, &now, sizeof now);
        if (rd_kafka_produce(topic, 0, RD_KAFKA_MSG_F_COPY | RD_KAFKA_MSG_F_BLOCK, payload, o->size, NULL, 0, NULL))
            die("a record was refused by the client");
        if (i < 0) settle(rk), begun = now_ns();
    }
    settle(rk);
    finished = 1;
    pthread_join(poller, NULL);
    print_delays(&delays);
}

/* ---- consuming ---- */

static rd_kafka_t *new_consumer(struct options *o, int64_t offset) {
    set(o->conf, "group.id", "bench");
    set(o->conf, "enable.auto.commit", "false");
    rd_kafka_t *rk = new_client(RD_KAFKA_CONSUMER, o->conf);
    rd_kafka_poll_set_consumer(rk);
    rd_kafka_topic_partition_list_t *all = rd_kafka_topic_partition_list_new(o->partitions);
    for (int32_t p = 0; p < o->partitions; p++)
        rd_kafka_topic_partition_list_add(all, o->topic, p)->offset = offset;
    int err = rd_kafka_assign(rk, all);
    if (err) die("assign: %s", rd_kafka_err2str(err));
    rd_kafka_topic_partition_list_destroy(all);
    return rk;
}

static void consume(struct options *o) {
    static rd_kafka_message_t *messages[CONSUME_BATCH];
    if (o->count <= 0) die("consume needs --count");
    rd_kafka_t *rk = new_consumer(o, RD_KAFKA_OFFSET_BEGINNING);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(rk);
    long seen = 0;
    size_t bytes = 0;
    int64_t begun = 0, last = now_ns();
    while (seen < o->count) {
        ssize_t got = rd_kafka_consume_batch_queue(queue, 100, messages, CONSUME_BATCH);
        int64_t now = now_ns();
        if (got > 0 && begun == 0) begun = now;
        if (got > 0) last = now;
        else if (now - last > PATIENCE_MS * 1000000LL) die("no record for %d s after %ld", PATIENCE_MS / 1000, seen);
        for (ssize_t i = 0; i < got; i++) {
            if (messages[i]->err) die("consume: %s", rd_kafka_err2str(messages[i]->err));
            seen++, bytes += messages[i]->len;
            rd_kafka_message_destroy(messages[i]);
        }
    }
    print_throughput(seen, bytes, (double)(now_ns() - begun) / 1e9);
}

static void receive(struct options *o) {
    if (o->count <= o->skip) die("receive needs --count larger than --skip");
    expect(&delays, o->count - o->skip, o->skip + 1); /* and the first, uncounted one of `paced` */
    set(o->conf, "enable.partition.eof", "true");
    rd_kafka_t *rk = new_consumer(o, RD_KAFKA_OFFSET_END);
    int ready = 0;
    while (delays.count < delays.limit) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(rk, PATIENCE_MS);
        if (message == NULL) die("no record for %d s after %ld", PATIENCE_MS / 1000, delays.count);
        if (message->err == RD_KAFKA_PARTITION_EOF) {
            if (!ready++) puts("ready"), fflush(stdout);
        } else if (message->err) {
            die("receive: %s", rd_kafka_err2str(message->err));
        } else {
            int64_t sent;
            memcpy(&sent, message->payload, sizeof sent);
            keep(&delays, now_ns() - sent);
        }
        rd_kafka_message_destroy(message);
    }
    print_delays(&delays);
}

int main(int argc, char **argv) {
    struct options o = parse(argc, argv);
    if (!strcmp(o.mode, "produce")) produce(&o);
    else if (!strcmp(o.mode, "paced")) paced(&o);
    else if (!strcmp(o.mode, "consume")) consume(&o);
    else if (!strcmp(o.mode, "receive")) receive(&o);
    else die("%s is not a mode", o.mode);
    fflush(stdout);
    _Exit(0); /* closing a client that has thousands of partitions takes longer than some measurements */
}
