// What calls store that neither arguments nor result say how much, or in the memory of another process: the
// values of a set of semaphores, and bytes for a child and for oneself.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/random.h>
#include <sys/sem.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SEMAPHORES = 5, BYTES = 9000 };

static unsigned char bytes[BYTES], there[BYTES];

static void check(int is_so) {
    if (!is_so) abort();
}

static unsigned sum(void) {
    unsigned sum = 0;
    for (int i = 0; i < BYTES; i++) sum = sum * 31 + there[i];
    return sum;
}

static void semaphores(void) {
    unsigned short values[SEMAPHORES + 1], found[SEMAPHORES + 1];
    check(getrandom(values, sizeof values, 0) == sizeof values);
    for (int i = 0; i < SEMAPHORES; i++) values[i] &= 0x7fff, found[i] = 0;
    found[SEMAPHORES] = 0xabcd;
    int set = semget(IPC_PRIVATE, SEMAPHORES, IPC_CREAT | 0600);
    check(set >= 0 && semctl(set, 0, SETALL, values) == 0 && semctl(set, 0, GETALL, found) == 0);
    check(semctl(set, 0, IPC_RMID) == 0);
    for (int i = 0; i < SEMAPHORES; i++) {
        check(found[i] == values[i]);
        printf("%hu ", found[i]);
    }
    printf("%x\n", found[SEMAPHORES]);
}

int main(void) {
    semaphores();
    int go[2];
    check(pipe(go) == 0);
    pid_t child = fork();
    if (child == 0) {
        char word;
        check(read(go[0], &word, 1) == 1);
        printf("the child has %u\n", sum());
        return 0;
    }
    check(getrandom(bytes, sizeof bytes, 0) == sizeof bytes);
    struct iovec own[2] = {{bytes, 100}, {bytes + 100, BYTES - 100}};
    struct iovec other[3] = {{there + 5000, 4000}, {there, 0}, {there, 5000}};
    check(process_vm_writev(child, own, 2, other, 3, 0) == BYTES);
    check(sum() == 0);
    check(write(go[1], "x", 1) == 1);
    check(wait(NULL) == child);
    check(process_vm_writev(getpid(), own, 2, other, 2, 0) == 4000);
    printf("%u\n", sum());
    return 0;
}
