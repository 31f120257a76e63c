/* Many connections at once, each with one Produce request in flight.
 *
 *   connections PORT COUNT AT_ONCE SECONDS FRAME_FILE ERROR_AT
 *
 * Opens COUNT connections to 127.0.0.1:PORT, from 200 addresses of this host, and asks each for ApiVersions. AT_ONCE of
 * them are opened before their answers are awaited: all of them are a storm. When all have answered, prints one JSON line
 * and waits for a line on stdin. Then it sends the frame of FRAME_FILE on every connection, and again on each as soon as it is
 * answered, for SECONDS, and prints a second JSON line. ERROR_AT is where the error code stands in the response, its
 * length prefix included. On failure a line on stderr and exit code 1. `secure_connections.c` is the same over TLS.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifdef SECURE
#include "secure_transport.h"
#else
#include "plain_transport.h"
#endif

enum { ADDRESSES = 200, RESPONSE_MAX = 16384, EVENTS = 512, SAMPLES_MAX = 8000000, FRAME_MAX = 65536, PATIENCE_MS = 60000 };

struct connection {
    struct transport transport;
    size_t received;
    int64_t sent_ns;
    unsigned char response[RESPONSE_MAX];
};

static const unsigned char API_VERSIONS[] = {0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff};

static struct connection *connections;
static int epoll_fd;
static int64_t *samples;
static long sample_count;

static void die(const char *what) {
    fprintf(stderr, "connections: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void send_frame(struct connection *c, const void *frame, size_t size) {
    c->sent_ns = now_ns();
    c->received = 0;
    if (transport_write(&c->transport, frame, size) != (ssize_t)size) die("a request could not be sent");
}

/* One address has only so many ports, and those of connections that were closed are not free at once. */
static void open_connection(struct connection *c, int port, int number) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in source = {.sin_family = AF_INET};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    source.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + (uint32_t)(number % ADDRESSES));
    int fd = c->transport.fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) die("socket");
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&source, sizeof source)) die("bind");
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    transport_begin(&c->transport);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event)) die("epoll_ctl");
}

/* Whether the whole response is there. */
static int receive(struct connection *c) {
    ssize_t got = transport_read(&c->transport, c->response + c->received, RESPONSE_MAX - c->received);
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) die("a connection was closed by the broker");
    c->received += (size_t)got;
    if (c->received < 4) return 0;
    uint32_t size;
    memcpy(&size, c->response, 4);
    if (ntohl(size) + 4 > RESPONSE_MAX) die("a response is larger than expected");
    return c->received >= ntohl(size) + 4;
}

/* Takes responses until `outstanding` have come; sends `frame` again on each connection while it is before `until`. */
static long serve(long outstanding, const void *frame, size_t size, int64_t until, size_t error_at) {
    struct epoll_event events[EVENTS];
    long done = 0;
    while (outstanding > 0) {
        int ready = epoll_wait(epoll_fd, events, EVENTS, PATIENCE_MS);
        if (ready <= 0) die("no response in time");
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            if (!receive(c)) continue;
            int64_t now = now_ns();
            outstanding--, done++;
            if (frame == NULL) continue;
            if (c->response[error_at] || c->response[error_at + 1]) die("the broker answered with an error code");
            if (sample_count < SAMPLES_MAX) samples[sample_count++] = now - c->sent_ns;
            if (now < until) send_frame(c, frame, size), outstanding++;
        }
    }
    return done;
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static double quantile_ms(double q) {
    long index = (long)(q * (double)sample_count);
    return (double)samples[index < sample_count ? index : sample_count - 1] / 1e6;
}

int main(int argc, char **argv) {
    static unsigned char frame[FRAME_MAX];
    if (argc != 7 + TRANSPORT_ARGUMENTS) {
        fputs("usage: connections PORT COUNT AT_ONCE SECONDS FRAME_FILE ERROR_AT" TRANSPORT_USAGE "\n", stderr);
        return 1;
    }
    int port = atoi(argv[1]), count = atoi(argv[2]), at_once = atoi(argv[3]);
    double seconds = atof(argv[4]);
    FILE *file = fopen(argv[5], "rb");
    if (file == NULL) die(argv[5]);
    size_t size = fread(frame, 1, sizeof frame, file), error_at = (size_t)atol(argv[6]);
    fclose(file);
    connections = calloc((size_t)count, sizeof *connections);
    samples = malloc(sizeof *samples * SAMPLES_MAX);
    epoll_fd = epoll_create1(0);
    transport_prepare(argv + 7);
    if (connections == NULL || samples == NULL || epoll_fd < 0) die("no memory");

    int64_t begun = now_ns();
    for (int first = 0; first < count; first += at_once) {
        int end = first + at_once < count ? first + at_once : count;
        for (int i = first; i < end; i++) {
            open_connection(&connections[i], port, i);
            send_frame(&connections[i], API_VERSIONS, sizeof API_VERSIONS);
        }
        serve(end - first, NULL, 0, 0, 0);
    }
    printf("{\"connections\": %d, \"answered_s\": %.6f}\n", count, (double)(now_ns() - begun) / 1e9);
    fflush(stdout);
    if (getchar() == EOF) return 1;

    begun = now_ns();
    for (int i = 0; i < count; i++) send_frame(&connections[i], frame, size);
    long done = serve(count, frame, size, begun + (int64_t)(seconds * 1e9), error_at);
    double took = (double)(now_ns() - begun) / 1e9;
    qsort(samples, (size_t)sample_count, sizeof *samples, ascending);
    printf("{\"requests\": %ld, \"seconds\": %.6f, \"p50_ms\": %.4f, \"p99_ms\": %.4f, \"p999_ms\": %.4f}\n", done, took,
           quantile_ms(0.5), quantile_ms(0.99), quantile_ms(0.999));
    return 0;
}
