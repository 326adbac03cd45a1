// appears TIMES: starts programs by a name that another thread changes all the time, so that what is looked for
// is seldom what is started; prints how many have run, and how many were not there.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ABSENT = 77 };

static volatile char name[4096];
static size_t last;

static void *change(void *nothing) {
    for (char letter = name[last];;) {
        name[last] = '~';
        for (volatile int i = 0; i < 500; i++) {
        }
        name[last] = letter;
        for (volatile int i = 0; i < 500; i++) {
        }
    }
    return nothing;
}

int main(int argc, char **argv) {
    int times = argc > 1 ? atoi(argv[1]) : 0;
    if (times == 0) {
        syscall(SYS_getpgid, 0);
        return 0;
    }
    ssize_t length = readlink("/proc/self/exe", (char *)name, sizeof name - 1);
    if (length < 1) return 2;
    last = length - 1;
    pthread_t thread;
    if (pthread_create(&thread, NULL, change, NULL)) return 2;
    int ran = 0, absent = 0;
    for (int i = 0; i < times; i++) {
        char *args[] = {"appears", NULL};
        pid_t child = vfork();
        if (child == 0) {
            execv((char *)name, args);
            _exit(errno == ENOENT ? ABSENT : 1);
        }
        int status;
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 1;
        ran += WEXITSTATUS(status) == 0;
        absent += WEXITSTATUS(status) == ABSENT;
    }
    printf("%d %d\n", ran, absent);
    fflush(stdout);
    _exit(ran + absent == times ? 0 : 1);
}
