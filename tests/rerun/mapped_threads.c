// Threads that write to a file by calls and by a map, and read it there, in turns that chance decides.
// flags: -pthread
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

enum { THREADS = 3, ROUNDS = 60 };

static int fd;
static unsigned *at;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *number) {
    unsigned me = (unsigned)(long)number;
    for (int i = 0; i < ROUNDS; i++) {
        unsigned by_chance;
        if (getrandom(&by_chance, sizeof by_chance, 0) != sizeof by_chance) exit(1);
        pthread_mutex_lock(&lock);
        at[me] = at[(me + 1) % THREADS] + by_chance % 100;
        by_chance += at[100 + (me + 2) % THREADS];
        if (pwrite(fd, &by_chance, 4, 4 * (100 + me)) != 4) exit(1);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(void) {
    fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || ftruncate(fd, 4096) != 0) return 1;
    at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return 1;
    pthread_t all[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&all[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(all[i], NULL);
    for (int i = 0; i < THREADS; i++) printf("%u %u\n", at[i], at[100 + i]);
    return 0;
}
