/* Makes calls on chosen files fail, for a program that is started with this library in LD_PRELOAD.
 *
 * The file named by FAULTY_IO_CONTROL says which, a rule a line, and is looked at before every call:
 *
 *     write 28 /orders-0/        every write to a path with "/orders-0/" in it fails with errno 28
 *
 * What can fail: write, sync, read, send, and journal, by which a file system is asked for its journal. A file that is not there means that nothing fails.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static size_t read_rules(char *rules, size_t size) {
    const char *control = getenv("FAULTY_IO_CONTROL");
    if (control == NULL) return 0;
    long fd = syscall(SYS_openat, AT_FDCWD, control, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return 0;
    long count = syscall(SYS_read, (int)fd, rules, size - 1);
    syscall(SYS_close, (int)fd);
    return count > 0 ? (size_t)count : 0;
}

/* The errno that `call` on `fd` is to fail with, 0 if it is not. */
static int fault(const char *call, int fd) {
    int saved = errno, found = 0;
    char rules[4096], link[64], path[4096];
    size_t size = read_rules(rules, sizeof rules);
    rules[size] = 0;
    if (size > 0) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, path, sizeof path - 1);
        path[length > 0 ? length : 0] = 0;
        char *rest = rules;
        for (char *line; !found && (line = strsep(&rest, "\n")) != NULL;) {
            char kind[16], part[1024];
            int number;
            if (sscanf(line, "%15s %d %1023s", kind, &number, part) == 3 && strcmp(kind, call) == 0 &&
                strstr(path, part) != NULL)
                found = number;
        }
    }
    errno = saved;
    return found;
}

#define INTERPOSE(kind, result, name, parameters, arguments)                         \
    result name parameters {                                                         \
        static result(*next) parameters;                                             \
        if (next == NULL) next = (result(*) parameters)dlsym(RTLD_NEXT, #name);      \
        int number = fault(kind, fd);                                                \
        if (number != 0) {                                                           \
            errno = number;                                                          \
            return -1;                                                               \
        }                                                                            \
        return next arguments;                                                       \
    }

#define POSITIONED(suffix, offset_type)                                                                         \
    INTERPOSE("write", ssize_t, pwrite##suffix, (int fd, const void *data, size_t size, offset_type at),          \
              (fd, data, size, at))                                                                               \
    INTERPOSE("write", ssize_t, pwritev##suffix, (int fd, const struct iovec *data, int count, offset_type at),   \
              (fd, data, count, at))                                                                              \
    INTERPOSE("read", ssize_t, pread##suffix, (int fd, void *data, size_t size, offset_type at),                  \
              (fd, data, size, at))                                                                               \
    INTERPOSE("read", ssize_t, preadv##suffix, (int fd, const struct iovec *data, int count, offset_type at),     \
              (fd, data, count, at))

POSITIONED(, off_t)
POSITIONED(64, off64_t)

INTERPOSE("write", ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
INTERPOSE("read", ssize_t, preadv2, (int fd, const struct iovec *data, int count, off_t at, int flags),
          (fd, data, count, at, flags))
INTERPOSE("read", ssize_t, preadv64v2, (int fd, const struct iovec *data, int count, off64_t at, int flags),
          (fd, data, count, at, flags))
INTERPOSE("sync", int, fsync, (int fd), (fd))
INTERPOSE("sync", int, fdatasync, (int fd), (fd))
INTERPOSE("journal", int, fremovexattr, (int fd, const char *attribute), (fd, attribute))

#define SENDS(name, offset_type)                                                                       \
    ssize_t name(int out, int in, offset_type *at, size_t size) {                                      \
        static ssize_t (*next)(int, int, offset_type *, size_t);                                       \
        if (next == NULL) next = (ssize_t(*)(int, int, offset_type *, size_t))dlsym(RTLD_NEXT, #name); \
        int number = fault("send", in);                                                                \
        if (number != 0) {                                                                             \
            errno = number;                                                                            \
            return -1;                                                                                 \
        }                                                                                              \
        return next(out, in, at, size);                                                                \
    }

SENDS(sendfile, off_t)
SENDS(sendfile64, off64_t)
