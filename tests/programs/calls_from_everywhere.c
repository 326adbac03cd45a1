// count: off
// flags: -pthread
// Threads hit the same call sites for the first time at the same moment, again and again.
#include "expect.h"
#include <pthread.h>
#include <sys/mman.h>

enum { THREADS = 8, SITES = 64, STRIDE = 64, GOES = OFTEN(5, 2) };
static unsigned char *code;
static pthread_barrier_t start;

static void *work(void *unused) {
    (void)unused;
    pthread_barrier_wait(&start);
    for (int round = 0; round < 20; round++)
        for (int site = 0; site < SITES; site++) CHECK(((long (*)(void))(code + site * STRIDE))() > 0);
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    // mov $110,%eax; syscall; mov %rax,%rax; nop; ret
    static const unsigned char function[] = {0xb8, 110, 0, 0, 0, 0x0f, 0x05, 0x48, 0x89, 0xc0, 0x90, 0xc3};
    for (int go = 0; go < GOES; go++) {
        code = mmap(NULL, SITES * STRIDE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(code != MAP_FAILED);
        for (int site = 0; site < SITES; site++) memcpy(code + site * STRIDE, function, sizeof function);
        CHECK(mprotect(code, SITES * STRIDE, PROT_READ | PROT_EXEC) == 0);
        pthread_t threads[THREADS];
        CHECK(pthread_barrier_init(&start, NULL, THREADS) == 0);
        for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
        for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK(munmap(code, SITES * STRIDE) == 0);
    }
    EXPECT_COUNT("getppid", (long)GOES * THREADS * 20 * SITES);
    return 0;
}
