// Threads that meet at locks and conditions, in an order that clocks and chance decide.
// flags: -pthread
#include <pthread.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned long order = 1;
static int turns;

static void *work(void *number) {
    for (int i = 0; i < 100; i++) {
        unsigned char by_chance = 0;
        pthread_mutex_lock(&lock);
        if (getrandom(&by_chance, 1, 0) != 1) return NULL;
        order = order * 31 + (unsigned long)number * 256 + by_chance;
        turns++;
        if (by_chance & 1) {
            pthread_cond_signal(&changed);
        } else {
            struct timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += 100000;
            if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
            pthread_cond_timedwait(&changed, &lock, &until);
        }
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) {
        if (pthread_create(&threads[i], NULL, work, (void *)i) != 0) return 1;
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("%d turns, in the order %lx\n", turns, order);
    return 0;
}
