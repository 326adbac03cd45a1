// Calls and switches, for `cargo xtask bench kernel`:
//
//     switches yield RATE SECONDS    on each CPU two processes switch to each other, RATE times a second,
//                                    as often as they can if it is 0; prints how often a second
//     switches deep DEPTH COUNT      calls of the kernel below a chain of functions; prints ns for each
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void yield(int cpu, double rate, double seconds, volatile long *yields) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    double begun = now(), passed;
    // Each of both makes half of the switches.
    while ((passed = now() - begun) < seconds) {
        if (rate == 0 || *yields * 2 / rate <= passed) {
            sched_yield();
            ++*yields;
        }
    }
}

static long __attribute__((noinline)) deep(int depth, long count) {
    if (depth > 0) return deep(depth - 1, count) + 1;
    for (long i = 0; i < count; i++) syscall(SYS_getppid);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    if (strcmp(argv[1], "deep") == 0) {
        double begun = now();
        if (deep(atoi(argv[2]), atol(argv[3])) != atoi(argv[2])) return 1;
        printf("%.1f\n", (now() - begun) * 1e9 / atol(argv[3]));
        return 0;
    }
    double rate = atof(argv[2]), seconds = atof(argv[3]);
    int count = 2 * (int)sysconf(_SC_NPROCESSORS_ONLN);
    long *yields = mmap(NULL, 64 * count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (yields == MAP_FAILED) return 1;
    for (int i = 0; i < count; i++) {
        if (fork() == 0) {
            yield(i / 2, rate, seconds, &yields[8 * i]);
            _exit(0);
        }
    }
    while (wait(NULL) > 0) continue;
    long all = 0;
    for (int i = 0; i < count; i++) all += yields[8 * i];
    printf("%.0f\n", all / seconds);
    return 0;
}
