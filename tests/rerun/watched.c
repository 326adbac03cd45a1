// What a debugger looks at: values by chance, in a process and in its child.
// flags: -g -O0
#include <stdio.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

int total;

static int drawn(int number) {
    unsigned by_chance;
    if (getrandom(&by_chance, sizeof by_chance, 0) != sizeof by_chance) return -1;
    getppid();
    return (int)(by_chance % 1000000) + number;
}

int main(int argc, char **argv) {
    for (int i = 0; i < 4; i++) {
        int got = drawn(i);
        if (i == 2) total = got + getpid();
        printf("%d %d\n", i, got);
        fflush(stdout);
    }
    if (fork() == 0) {
        printf("child %d\n", drawn(7));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    if (argc > 1) execl(argv[0], argv[0], NULL);
    return 0;
}
