// Writes long buffers while a timer ticks faster than they can be copied, then copies the same buffer itself.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

enum { SIZE = 48 << 20, TIMES = 5 };

static void on_alarm(int signal) {
    (void)signal;
}

int main(void) {
    char *bytes = malloc(SIZE), *copy = malloc(SIZE);
    int null = open("/dev/null", O_WRONLY);
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 1000}, {0, 1000}}, off = {0};
    if (!bytes || !copy || null < 0 || sigaction(SIGALRM, &action, NULL)) return 1;
    memset(bytes, 'x', SIZE);
    memset(copy, 'y', SIZE);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < TIMES; i++) {
        if (write(null, bytes, SIZE) != SIZE) return 1;
        syscall(SYS_getppid);
    }
    setitimer(ITIMER_REAL, &off, NULL);
    for (int i = 0; i < TIMES; i++) {
        memcpy(copy, bytes, SIZE);
        syscall(SYS_getpgrp);
    }
    return copy[SIZE / 2] != 'x';
}
