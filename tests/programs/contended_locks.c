// count: off
// Processes that count under a lock: with flock and fcntl, waiting and trying again and again.
#include "expect.h"
#include <sys/file.h>

enum { PROCESSES = 4, ROUNDS = 60, WAYS = 4 };

static int lock(int fd, int way, short kind) {
    struct flock whole = {.l_type = kind, .l_whence = SEEK_SET};
    int waits = way & 1 || kind == F_UNLCK;
    if (way & 2) return fcntl(fd, waits ? F_SETLKW : F_SETLK, &whole);
    return flock(fd, (kind == F_UNLCK ? LOCK_UN : LOCK_EX) | (waits ? 0 : LOCK_NB));
}

static void count(int way) {
    int fd = open("counter", O_RDWR);
    CHECK(fd >= 0);
    for (int i = 0; i < ROUNDS; i++) {
        long value = 0;
        while (lock(fd, way, F_WRLCK) != 0) {
            CHECK(errno == EAGAIN || errno == EACCES);
            usleep(20);
        }
        CHECK(pread(fd, &value, sizeof value, 0) >= 0);
        usleep(50);
        value++;
        CHECK(pwrite(fd, &value, sizeof value, 0) == sizeof value);
        CHECK(lock(fd, way, F_UNLCK) == 0);
    }
    close(fd);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    CHECK(close(open("counter", O_CREAT | O_RDWR, 0600)) == 0);
    for (int way = 0; way < WAYS; way++) {
        for (int i = 0; i < PROCESSES; i++) {
            pid_t pid = fork();
            CHECK(pid >= 0);
            if (pid == 0) {
                count(way);
                _exit(0);
            }
        }
        int status;
        for (int i = 0; i < PROCESSES; i++) CHECK(wait(&status) > 0 && status == 0);
    }
    long value = 0;
    int fd = open("counter", O_RDONLY);
    CHECK(read(fd, &value, sizeof value) == sizeof value && value == WAYS * PROCESSES * ROUNDS);
    EXPECT_COUNT("pwrite64", WAYS * PROCESSES * ROUNDS);
    return 0;
}
