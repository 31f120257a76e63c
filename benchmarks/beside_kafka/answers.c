/* The least that a server does with sockets: it receives what is there, and answers each time with the same bytes.
 *
 *   answers PORT SIZE
 *
 * Listens at 127.0.0.1:PORT, and says "ready" when it does. One thread, level-triggered epoll; of each turn first everything is received, then everything
 * answered, with one recv and one send for each connection that is ready. It reads nothing of a request. The answer has SIZE
 * bytes behind its length prefix, all zero, which is no error wherever an error code stands. On failure a line on stderr and
 * exit code 1.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 512, BACKLOG = 4096, REQUEST_MAX = 65536, ANSWER_MAX = 4096 };

static const int on = 1;
static int epoll_fd;

static void die(const char *what) {
    fprintf(stderr, "answers: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void watch(int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event)) die("epoll_ctl");
}

static int listening_at(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on)) die("socket");
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, BACKLOG)) die("listen");
    return fd;
}

static void admit(int listener) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    if (fd < 0) die("accept");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    watch(fd);
}

int main(int argc, char **argv) {
    static unsigned char request[REQUEST_MAX], answer[4 + ANSWER_MAX];
    static struct epoll_event events[EVENTS];
    static int asking[EVENTS];
    size_t size = argc == 3 ? (size_t)atol(argv[2]) : 0;
    if (size == 0 || size > ANSWER_MAX) {
        fputs("usage: answers PORT SIZE, of 1 to 4096 bytes\n", stderr);
        return 1;
    }
    uint32_t prefix = htonl((uint32_t)size);
    memcpy(answer, &prefix, sizeof prefix);
    epoll_fd = epoll_create1(0);
    if (epoll_fd < 0) die("epoll_create1");
    int listener = listening_at(atoi(argv[1]));
    watch(listener);
    puts("ready");
    fflush(stdout);
    for (;;) {
        int ready = epoll_wait(epoll_fd, events, EVENTS, -1), count = 0;
        if (ready < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) admit(fd);
            else if (recv(fd, request, sizeof request, 0) > 0) asking[count++] = fd;
            else close(fd);
        }
        for (int i = 0; i < count; i++) send(asking[i], answer, 4 + size, MSG_NOSIGNAL);
    }
}
