// Leaves its recording for reasons of which little can be seen.
//
//   no_reason           asks the processor's counter, by code made at run time: no file has the instruction
//   no_reason shared    looks at memory that a child changes all the time
//   no_reason spins     waits for ever, if a sleep takes no time by the processor's counter
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// rdtsc; shl $32, %rdx; or %rdx, %rax; ret
static const unsigned char code[] = {0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0, 0xc3};

typedef unsigned long long number;

static void *memory(int flags) {
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
}

static int looks(void) {
    volatile long *word = memory(MAP_SHARED);
    pid_t child = fork();
    for (; child == 0 && word[1] == 0;) {
        for (long i = 0; i < 1000000; i++) *word += 1;
        getppid();
    }
    if (child == 0) _exit(0);
    for (volatile long i = 0; i < 100000000; i++) {}
    printf("%ld\n", *word);
    fflush(stdout);
    // The child ends after that.
    word[1] = 1;
    return wait(NULL) != child;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "shared") == 0) return looks();
    unsigned char *made = memory(MAP_PRIVATE);
    memcpy(made, code, sizeof code);
    if (mprotect(made, 4096, PROT_READ | PROT_EXEC) != 0) return 1;
    number (*now)(void) = (number (*)(void))made;
    if (strcmp(what, "spins") == 0) {
        struct timespec time = {0, 300000000};
        number before = now();
        nanosleep(&time, NULL);
        // Nothing has fewer than a billion ticks a second.
        if (now() - before < 100000000) for (;;) {}
        return 0;
    }
    printf("%llu\n", now());
    return 0;
}
