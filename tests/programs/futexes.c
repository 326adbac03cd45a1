// flags: -pthread
// count: off
// Raw futexes: values that do not match, waits that time out, wakes between threads.
#include "expect.h"
#include <linux/futex.h>
#include <pthread.h>

static uint32_t word;

static void *waiter(void *unused) {
    (void)unused;
    while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) == 7)
        syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 7, NULL, NULL, 0);
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    word = 5;
    CHECK(syscall(SYS_futex, &word, FUTEX_WAIT, 6, NULL, NULL, 0) == -1 && errno == EAGAIN);
    EXPECT_ERRNO("futex", EAGAIN, DATA(&word, sizeof word), TEXT("FUTEX_WAIT"));
    struct timespec soon = {0, 3000000};
    CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 5, &soon, NULL, 0) == -1 && errno == ETIMEDOUT);
    EXPECT_ERRNO("futex", ETIMEDOUT, DATA(&soon, sizeof soon), TEXT("FUTEX_WAIT_PRIVATE"));
    word = 7;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, waiter, NULL) == 0);
    __atomic_store_n(&word, 8, __ATOMIC_RELEASE);
    long woken = syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    CHECK(woken >= 0 && woken <= 4);
    EXPECT("futex", woken, TEXT("FUTEX_WAKE_PRIVATE"));
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    return 0;
}
