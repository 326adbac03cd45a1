// flags: -pthread
// count: off
// Much at once: threads that write, read and check, children that run other programs. It prints what
// it found, so that whoever disturbs the recording can see whether the program was disturbed.
#include "expect.h"
#include <pthread.h>
#include <spawn.h>

extern char **environ;
enum { THREADS = 3, ROUNDS = 150 };
static uint64_t sums[THREADS];

static void *work(void *number) {
    long n = (long)number;
    char name[] = "churn-0", out[3000], in[3000];
    name[6] = (char)('0' + n);
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    for (int i = 0; i < ROUNDS; i++) {
        for (size_t k = 0; k < sizeof out; k++) out[k] = (char)(k * (size_t)(i + 3) + (size_t)n);
        CHECK(pwrite(fd, out, sizeof out, i * 100) == sizeof out);
        CHECK(pread(fd, in, sizeof in, i * 100) == sizeof in);
        CHECK(memcmp(in, out, sizeof in) == 0);
        sums[n] = sums[n] * 31 + fnv(in, sizeof in);
    }
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    int codes = 0;
    for (int i = 0; i < 60; i++) {
        char script[40], *args[] = {"sh", "-c", script, NULL};
        snprintf(script, sizeof script, "/bin/true; exit %d", i);
        pid_t pid;
        CHECK(posix_spawn(&pid, "/bin/sh", NULL, NULL, args, environ) == 0);
        int status = wait_for(pid);
        CHECK(WIFEXITED(status));
        codes += WEXITSTATUS(status);
    }
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < THREADS; i++) printf("thread %d: %016llx\n", i, (unsigned long long)sums[i]);
    printf("children: %d\n", codes);
    return 0;
}
