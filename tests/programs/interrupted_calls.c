// flags: -pthread
// count: off
// Blocking calls and signals: EINTR without SA_RESTART, waiting on with it.
#include "expect.h"
#include <poll.h>
#include <pthread.h>

static volatile sig_atomic_t handled;
static pthread_t main_thread;
static int ends[2];

static void on_signal(int signal) {
    (void)signal;
    handled++;
}

static void install(int flags) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
}

// Sends signals until one was handled, then (if asked for) the byte that the reader waits for.
static void *sender(void *with_byte) {
    while (handled == 0) {
        CHECK(pthread_kill(main_thread, SIGUSR1) == 0);
        struct timespec soon = {0, 2000000};
        nanosleep(&soon, NULL);
    }
    if (with_byte) CHECK(write(ends[1], "x", 1) == 1);
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    main_thread = pthread_self();
    CHECK(pipe(ends) == 0);
    char byte;
    pthread_t thread;

    install(SA_RESTART);
    CHECK(pthread_create(&thread, NULL, sender, ends) == 0);
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x' && handled > 0);
    CHECK(pthread_join(thread, NULL) == 0);
    EXPECT("read", 1, DATA("x", 1));

    // Without SA_RESTART the signal may come before the read began; then another follows.
    install(0);
    int interrupted = 0;
    while (!interrupted) {
        handled = 0;
        CHECK(pthread_create(&thread, NULL, sender, NULL) == 0);
        if (handled == 0) {
            struct pollfd nothing = {ends[0], POLLIN, 0};
            if (poll(&nothing, 1, 1000) == -1) {
                CHECK(errno == EINTR);
                interrupted = 1;
            }
        }
        CHECK(pthread_join(thread, NULL) == 0);
    }
    EXPECT_ERRNO("poll", EINTR);

    interrupted = 0;
    while (!interrupted) {
        handled = 0;
        CHECK(pthread_create(&thread, NULL, sender, NULL) == 0);
        struct timespec second = {1, 0}, left;
        if (nanosleep(&second, &left) == -1) {
            CHECK(errno == EINTR && left.tv_sec <= 1);
            EXPECT_ERRNO("clock_nanosleep", EINTR, DATA(&left, sizeof left));
            interrupted = 1;
        }
        CHECK(pthread_join(thread, NULL) == 0);
    }
    return 0;
}
