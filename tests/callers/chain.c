// Makes calls by known chains of functions.
#include <fcntl.h>
#include <unistd.h>

#define APART __attribute__((noinline))
// Keeps a call from becoming a jump.
#define STAYS __asm__ volatile("")

APART int inner(int fd) {
    int done = write(fd, "hello", 5);
    STAYS;
    return done + 1;
}

APART int one(int fd) {
    int done = inner(fd);
    STAYS;
    return done + 1;
}

APART int other(int fd) {
    int done = inner(fd);
    STAYS;
    return done + 2;
}

int main(void) {
    int fd = open("/dev/null", O_WRONLY);
    for (int i = 0; i < 30; i++)
        one(fd);
    for (int i = 0; i < 12; i++)
        other(fd);
    return 0;
}
