// shows: lock_waits
// flags: -pthread
#include "pattern.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>

#define ROUNDS 200

// A lock as the C library has it: 0 free, 1 held, 2 held and somebody waits.
static atomic_int lock;

static void take(void) {
    int free = 0;
    if (atomic_compare_exchange_strong(&lock, &free, 1)) return;
    while (atomic_exchange(&lock, 2) != 0) {
        syscall(SYS_futex, &lock, FUTEX_WAIT_PRIVATE, 2, NULL);
    }
}

static void give(void) {
    if (atomic_exchange(&lock, 0) == 2) syscall(SYS_futex, &lock, FUTEX_WAKE_PRIVATE, 1);
}

static atomic_int turn;

static void *other(void *unused) {
    for (int n = 0; n < ROUNDS; n++) {
        while (atomic_load(&turn) != 2 * n + 1) sched_yield();
        take();
        give();
        atomic_store(&turn, 2 * n + 2);
    }
    return unused;
}

int main(int argc, char **argv) {
    int contended = shows(argc, argv);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
    for (int n = 0; n < ROUNDS; n++) {
        take();
        if (!contended) give();
        atomic_store(&turn, 2 * n + 1);
        // Held until the other thread is on its way to wait for it.
        if (contended) {
            while (atomic_load(&lock) != 2) sched_yield();
            give();
        }
        while (atomic_load(&turn) != 2 * n + 2) sched_yield();
    }
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}
