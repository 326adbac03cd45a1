// Processes that share memory, and tell each other by a pipe that something is there.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    int there[2], back[2];
    volatile int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || pipe(there) != 0 || pipe(back) != 0) return 1;
    char byte = 0;
    if (fork() == 0) {
        for (int i = 0; i < 200; i++) {
            if (read(there[0], &byte, 1) != 1) _exit(1);
            shared[1] = shared[0] * 3 + i;
            if (write(back[1], &byte, 1) != 1) _exit(1);
        }
        _exit(0);
    }
    unsigned sum = 0;
    for (int i = 0; i < 200; i++) {
        shared[0] = i + (int)sum % 1000;
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) return 1;
        sum = sum * 31 + (unsigned)shared[1];
    }
    wait(NULL);
    printf("%u\n", sum);
    return 0;
}
