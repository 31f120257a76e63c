/* How long the machine stood still: what a process sees of it that goes before all others.
 *
 *   stalls
 *
 * On each core a thread with real-time priority sleeps 5 ms, again and again. Nothing of this machine keeps it from waking
 * but the kernel itself, for less than a millisecond, and what the machine runs on, when it gives a core of a virtual machine
 * to somebody else. When stdin ends, prints one JSON line: of the core that was late most, by more than 2 ms each time,
 * for how many of a thousand seconds, and the longest time in ms. Without the right to such a priority: exit code 2.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { CORES_MAX = 1024, SLEEP_NS = 5000000, LATE_NS = 2000000, PRIORITY = 90 };

struct core {
    pthread_t thread;
    int number;
    int64_t late_ns, longest_ns;
};

static struct core cores[CORES_MAX];
static atomic_int is_over;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void *watch(void *argument) {
    struct core *core = argument;
    while (!atomic_load(&is_over)) {
        struct timespec pause = {0, SLEEP_NS};
        int64_t begun = now_ns();
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        int64_t late = now_ns() - begun - SLEEP_NS;
        if (late > LATE_NS) core->late_ns += late;
        if (late > core->longest_ns) core->longest_ns = late;
    }
    return NULL;
}

int main(void) {
    cpu_set_t usable;
    struct sched_param priority = {.sched_priority = PRIORITY};
    if (sched_getaffinity(0, sizeof usable, &usable)) return 1;
    if (sched_setscheduler(0, SCHED_FIFO, &priority)) return 2;
    mlockall(MCL_CURRENT | MCL_FUTURE);
    int count = 0;
    int64_t begun = now_ns();
    for (int number = 0; number < CORES_MAX; number++) {
        if (!CPU_ISSET(number, &usable)) continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(number, &one);
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setaffinity_np(&attributes, sizeof one, &one);
        cores[count].number = number;
        if (pthread_create(&cores[count].thread, &attributes, watch, &cores[count])) return 1;
        count++;
    }
    char end;
    while (read(STDIN_FILENO, &end, 1) > 0) {
    }
    atomic_store(&is_over, 1);
    int64_t late = 0, longest = 0;
    for (int each = 0; each < count; each++) {
        pthread_join(cores[each].thread, NULL);
        if (cores[each].late_ns > late) late = cores[each].late_ns;
        if (cores[each].longest_ns > longest) longest = cores[each].longest_ns;
    }
    printf("{\"per_mille\": %.3f, \"longest_ms\": %.3f}\n", 1e3 * late / (now_ns() - begun), longest / 1e6);
    return 0;
}
