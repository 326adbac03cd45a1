// Maps a file of 24 MiB while a timer expires every two milliseconds: to note the file takes longer than that.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#define CHECK(holds) \
    do \
        if (!(holds)) { \
            fprintf(stderr, "line %d: %s does not hold (errno %d)\n", __LINE__, #holds, errno); \
            exit(1); \
        } \
    while (0)

enum { PIECE = 1 << 20, PIECES = 24, TIMES = 5 };
static char piece[PIECE];

static void on_signal(int signal) {
    (void)signal;
}

int main(void) {
    int fd = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    for (int i = 0; i < PIECES; i++) {
        memset(piece, 'a' + i, PIECE);
        CHECK(write(fd, piece, PIECE) == PIECE);
    }
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    long sum = 0;
    for (int i = 0; i < TIMES; i++) {
        const char *at = mmap(NULL, (size_t)PIECE * PIECES, PROT_READ, MAP_PRIVATE, fd, 0);
        CHECK(at != MAP_FAILED);
        for (int n = 0; n < PIECES; n++) sum += at[(size_t)n * PIECE];
        CHECK(munmap((void *)at, (size_t)PIECE * PIECES) == 0);
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    printf("%ld\n", sum);
    return 0;
}
