// The many faces of fcntl, and flock.
#include "expect.h"
#include <sys/file.h>
#include <sys/mman.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 1000) == 0);
    CHECK(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    EXPECT("fcntl", 0, TEXT("F_SETFD"), TEXT("FD_CLOEXEC"));
    EXPECT("fcntl", FD_CLOEXEC, TEXT("F_GETFD"));
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 50);
    CHECK(copy == 50);
    EXPECT("fcntl", 50, TEXT("F_DUPFD_CLOEXEC"));
    CHECK(fcntl(fd, F_SETFL, O_APPEND) == 0 && (fcntl(fd, F_GETFL) & O_APPEND));
    EXPECT("fcntl", 0, TEXT("F_SETFL"), TEXT("O_APPEND"));
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)random_len(500), .l_len = 100};
    CHECK(fcntl(fd, F_SETLK, &lock) == 0);
    EXPECT("fcntl", 0, DATA(&lock, sizeof lock), TEXT("F_SETLK"), TEXT("F_WRLCK"));
    pid_t pid = fork();
    if (pid == 0) {
        struct flock seen = lock;
        CHECK(fcntl(fd, F_GETLK, &seen) == 0 && seen.l_type == F_WRLCK && seen.l_pid == getppid());
        CHECK(fcntl(fd, F_SETLK, &lock) == -1 && errno == EAGAIN);
        _exit(0);
    }
    CHECK_CHILD(pid);
    EXPECT_ERRNO("fcntl", EAGAIN, TEXT("F_SETLK"));
    lock.l_type = F_UNLCK;
    CHECK(fcntl(fd, F_OFD_SETLK, &lock) == 0);
    EXPECT("fcntl", 0, DATA(&lock, sizeof lock), TEXT("F_OFD_SETLK"));
    struct f_owner_ex owner = {F_OWNER_PID, getpid()}, got;
    CHECK(fcntl(fd, F_SETOWN_EX, &owner) == 0 && fcntl(fd, F_GETOWN_EX, &got) == 0);
    CHECK(got.pid == owner.pid);
    EXPECT("fcntl", 0, DATA(&owner, sizeof owner), TEXT("F_SETOWN_EX"));
    EXPECT("fcntl", 0, DATA(&got, sizeof got), TEXT("F_GETOWN_EX"));
    int ends[2];
    CHECK(pipe(ends) == 0);
    int size = fcntl(ends[0], F_SETPIPE_SZ, 65536);
    CHECK(size >= 65536 && fcntl(ends[0], F_GETPIPE_SZ) == size);
    EXPECT("fcntl", size, TEXT("F_SETPIPE_SZ"));
    int memory = memfd_create("sealed", MFD_ALLOW_SEALING);
    CHECK(memory >= 0);
    EXPECT("memfd_create", memory, TEXT("sealed"), TEXT("MFD_ALLOW_SEALING"));
    CHECK(fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE) == 0 && fcntl(memory, F_GET_SEALS) == F_SEAL_WRITE);
    EXPECT("fcntl", 0, TEXT("F_ADD_SEALS"), TEXT("F_SEAL_WRITE"));
    CHECK(write(memory, "x", 1) == -1 && errno == EPERM);
    EXPECT_ERRNO("write", EPERM);
    CHECK(flock(fd, LOCK_EX | LOCK_NB) == 0);
    EXPECT("flock", 0, TEXT("LOCK_EX"));
    return 0;
}
