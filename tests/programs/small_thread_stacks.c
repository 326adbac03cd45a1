// flags: -pthread
// Threads on the smallest stacks that the C library allows, moving whole pages of data.
#include "expect.h"
#include <pthread.h>

static char pages[8][4096];

static void *work(void *number) {
    char name[] = "file-0";
    name[5] = (char)('0' + (long)number);
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int i = 0; i < 50; i++) {
        if (pwrite(fd, pages[(long)number], 4096, 0) != 4096) return (void *)1;
        if (pread(fd, pages[(long)number], 4096, 0) != 4096) return (void *)1;
        if (syscall(SYS_pread64, fd, 5, 4096, 0) != -1) return (void *)1;
    }
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    pthread_attr_t small;
    CHECK(pthread_attr_init(&small) == 0);
    CHECK(pthread_attr_setstacksize(&small, (size_t)PTHREAD_STACK_MIN) == 0);
    pthread_t threads[8];
    fill(pages, sizeof pages);
    for (long i = 0; i < 8; i++) {
        EXPECT("pwrite64", 4096, DATA(pages[i], 4096));
        EXPECT("pread64", 4096, DATA(pages[i], 4096));
    }
    for (long i = 0; i < 8; i++) CHECK(pthread_create(&threads[i], &small, work, (void *)i) == 0);
    for (int i = 0; i < 8; i++) {
        void *bad;
        CHECK(pthread_join(threads[i], &bad) == 0 && bad == NULL);
    }
    EXPECT_COUNT("pwrite64", 400);
    return 0;
}
