// The stack as a handler sees it that interrupts calls which wait: the same frames, by the same
// names.
// flags: -rdynamic -fno-optimize-sibling-calls
// count: off
#include "expect.h"
#include <dlfcn.h>
#include <execinfo.h>
#include <poll.h>
#include <sys/time.h>

static int ends[2];
static void *frames[64];
static int depth;

static void on_alarm(int signal) {
    (void)signal;
    depth = backtrace(frames, 64);
}

static void in_poll(void) { CHECK(poll(NULL, 0, -1) == -1 && errno == EINTR); }
static void in_pause(void) { CHECK(pause() == -1 && errno == EINTR); }
static void in_read(void) {
    char byte;
    CHECK(read(ends[0], &byte, 1) == -1 && errno == EINTR);
}
static void in_nanosleep(void) {
    struct timespec time = {.tv_sec = 1000};
    CHECK(nanosleep(&time, NULL) == -1 && errno == EINTR);
}
static void in_syscall(void) { CHECK(syscall(SYS_pause) == -1 && errno == EINTR); }

__attribute__((noinline)) void inner(void (*wait)(void)) {
    wait();
    __asm__ volatile("");
}

__attribute__((noinline)) void outer(void (*wait)(void)) {
    inner(wait);
    __asm__ volatile("");
}

int main(int argc, char **argv) {
    begin(argc, argv);
    CHECK(pipe(ends) == 0);
    backtrace(frames, 64); // loads what it needs
    struct sigaction action = {.sa_handler = on_alarm};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    void (*waits[])(void) = {in_poll, in_pause, in_read, in_nanosleep, in_syscall};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        // Enough of them for calls whose site is known by now, and for ones met the first time.
        for (int times = 0; times < 8; times++) {
            // On a busy machine the first may come before the wait.
            struct itimerval soon = {.it_value.tv_usec = 5000, .it_interval.tv_usec = 500000};
            CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
            outer(waits[i]);
            CHECK(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL) == 0);
            int next = 0;
            for (int frame = 0; frame < depth; frame++) {
                static const char *const names[] = {"inner", "outer", "main"};
                Dl_info found;
                if (next < 3 && dladdr(frames[frame], &found) && found.dli_sname
                    && !strcmp(found.dli_sname, names[next]))
                    next++;
            }
            CHECK(next == 3);
            printf("%zu: %d frames\n", i, depth);
        }
    }
    return 0;
}
