/* TLS handshakes at a rate, each on a connection of its own that asks for ApiVersions once and is closed.
 *
 *   handshakes PORT RATE
 *
 * Goes on until stdin ends, then prints one JSON line. Each of eight threads does one after the other: a broker that takes
 * too long for them has fewer than RATE a second. On failure a line on stderr and exit code 1.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tls_client.h"

enum { THREADS = 8, RESPONSE_MAX = 16384 };

static const unsigned char API_VERSIONS[] = {0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff};

static SSL_CTX *context;
static int port;
static double rate;
static atomic_int is_over;
static atomic_long done;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void shake_hands(void) {
    static const int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    unsigned char response[RESPONSE_MAX];
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address)) die_of_tls("handshakes: connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    SSL *ssl = tls_connect(context, fd);
    if (ssl == NULL) die_of_tls("handshakes: a handshake failed");
    if (SSL_write(ssl, API_VERSIONS, sizeof API_VERSIONS) <= 0) die_of_tls("handshakes: a request could not be sent");
    if (SSL_read(ssl, response, sizeof response) <= 0) die_of_tls("handshakes: no answer");
    SSL_shutdown(ssl);
    SSL_free(ssl);
    close(fd);
    atomic_fetch_add(&done, 1);
}

static void *work(void *number) {
    double apart_ns = 1e9 * THREADS / rate;
    int64_t begun = now_ns() + (int64_t)(apart_ns * (double)(intptr_t)number / THREADS);
    for (long each = 0; !atomic_load(&is_over); each++) {
        int64_t due = begun + (int64_t)(apart_ns * (double)each);
        struct timespec t = {due / 1000000000LL, due % 1000000000LL};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        shake_hands();
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    char end;
    port = argc == 3 ? atoi(argv[1]) : 0, rate = argc == 3 ? atof(argv[2]) : 0;
    if (port <= 0 || rate <= 0) {
        fputs("usage: handshakes PORT RATE\n", stderr);
        return 1;
    }
    context = tls_context();
    int64_t begun = now_ns();
    for (intptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i)) return 1;
    while (read(STDIN_FILENO, &end, 1) > 0) {
    }
    atomic_store(&is_over, 1);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    printf("{\"handshakes\": %ld, \"seconds\": %.6f}\n", atomic_load(&done), (double)(now_ns() - begun) / 1e9);
    return 0;
}
