// Ends by a fault of its own code, after it has computed. The first word says what it comes to if its
// memory is not what it was: a store through /proc/self/mem is made when it is recorded, and is answered
// when it is executed again.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile char is_first[2] = "0";
static volatile int sum;

__attribute__((noinline)) static void fault(void) { *(volatile int *)8 = sum; }

static void end(const char *how) {
    int memory = open("/proc/self/mem", O_RDWR);
    if (pwrite(memory, "1", 1, (long)is_first) != 1) _exit(1);
    for (int i = 0; i < 50000000; i++) sum += i;
    if (is_first[0] == '1' || strcmp(how, "same") == 0) fault();
    if (strcmp(how, "illegal") == 0) __builtin_trap();
    while (strcmp(how, "loop") == 0) sum++;
    _exit(0);
}

// Children that are killed before they have made a call, most of them.
static int killed_at_once(void) {
    for (int n = 0; n < 40; n++) {
        int status, child = fork();
        if (child == 0)
            for (;;) getppid();
        kill(child, n % 2 ? SIGKILL : SIGTERM);
        waitpid(child, &status, 0);
        printf("%d\n", status & 0x7f);
    }
    return 0;
}

int main(int count, char **words) {
    if (strcmp(words[1], "at_once") == 0) return killed_at_once();
    if (count < 3) end(words[1]);
    // A child that somebody asks for, or nobody.
    int status = 0;
    int child = fork();
    if (child == 0) {
        if (strcmp(words[1], "killed") != 0) end(words[1]);
        for (;;) sum++;
    }
    if (strcmp(words[2], "orphan") == 0) return 0;
    if (strcmp(words[1], "killed") == 0) {
        usleep(100000);
        kill(child, SIGSEGV);
    }
    wait(&status);
    printf("%d\n", status & 0x7f);
    return 0;
}
