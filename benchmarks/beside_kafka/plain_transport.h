/* How `connections.c` sends and receives: the bytes as they are. */
#ifndef PLAIN_TRANSPORT_H
#define PLAIN_TRANSPORT_H

#include <unistd.h>

enum { TRANSPORT_ARGUMENTS = 0 };
#define TRANSPORT_USAGE ""

struct transport {
    int fd;
};

static void transport_prepare(char **arguments) { (void)arguments; }

static void transport_begin(struct transport *t) { (void)t; }

/* As read(2) does it on a socket that does not block. */
static ssize_t transport_read(struct transport *t, void *buffer, size_t size) { return read(t->fd, buffer, size); }

static ssize_t transport_write(struct transport *t, const void *bytes, size_t size) { return write(t->fd, bytes, size); }

#endif
