// Locks: of ranges, of descriptors, of files, of memory; who holds them, who waits, who is told.
// flags: -pthread
#include "cases.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sys/file.h>

static struct flock range(short type, off_t start, off_t len) {
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
}

// Whether another process may take this lock.
static int is_free(short type, off_t start, off_t len) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        int fd = open("file", O_RDWR);
        struct flock lock = range(type, start, len);
        _exit(fcntl(fd, F_SETLK, &lock) == 0);
    }
    int status = wait_for(pid);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void ranges(void) {
    int fd = new_file("file", "0123456789");
    struct flock lock = range(F_WRLCK, 0, 100);
    CHECK(fcntl(fd, F_SETLK, &lock) == 0);
    lock = range(F_UNLCK, 40, 20);
    CHECK(fcntl(fd, F_SETLK, &lock) == 0);
    lock = range(F_RDLCK, 80, 20);
    CHECK(fcntl(fd, F_SETLK, &lock) == 0);
    CHECK(!is_free(F_RDLCK, 39, 1) && is_free(F_WRLCK, 40, 20) && !is_free(F_WRLCK, 60, 1));
    CHECK(is_free(F_RDLCK, 85, 5) && !is_free(F_WRLCK, 85, 5) && is_free(F_WRLCK, 100, 0));
}

static void told_who_holds(void) {
    int fd = new_file("file", "");
    struct flock lock = range(F_WRLCK, 10, 5);
    CHECK(fcntl(fd, F_SETLK, &lock) == 0);
    pid_t parent = getpid(), pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct flock found = range(F_RDLCK, 0, 0);
        CHECK(fcntl(fd, F_GETLK, &found) == 0);
        CHECK(found.l_type == F_WRLCK && found.l_start == 10 && found.l_len == 5 && found.l_pid == parent);
        found = range(F_RDLCK, 0, 10);
        CHECK(fcntl(fd, F_GETLK, &found) == 0 && found.l_type == F_UNLCK);
        FAILS(EAGAIN, fcntl(fd, F_SETLK, &lock));
        _exit(0);
    }
    CHECK_CHILD(pid);
}

static void any_close_unlocks(void) {
    int fd = new_file("file", "");
    struct flock lock = range(F_WRLCK, 0, 0);
    CHECK(fcntl(fd, F_SETLK, &lock) == 0 && !is_free(F_RDLCK, 0, 0));
    close(open("file", O_RDONLY));
    CHECK(is_free(F_RDLCK, 0, 0));
}

static void open_file_locks(void) {
    int one = new_file("file", ""), two = open("file", O_RDWR);
    struct flock lock = range(F_WRLCK, 0, 0);
    CHECK(fcntl(one, F_OFD_SETLK, &lock) == 0);
    FAILS(EAGAIN, fcntl(two, F_OFD_SETLK, &lock));
    lock.l_pid = 0;
    CHECK(fcntl(two, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_WRLCK && lock.l_pid == -1);
    close(open("file", O_RDONLY));
    lock = range(F_WRLCK, 0, 0);
    FAILS(EAGAIN, fcntl(two, F_OFD_SETLK, &lock));
    int copy = dup(one);
    close(one);
    FAILS(EAGAIN, fcntl(two, F_OFD_SETLK, &lock));
    close(copy);
    CHECK(fcntl(two, F_OFD_SETLK, &lock) == 0);
    lock.l_pid = 1;
    FAILS(EINVAL, fcntl(two, F_OFD_SETLK, &lock));
}

static void whole_files(void) {
    int one = new_file("file", ""), two = open("file", O_RDONLY);
    CHECK(flock(one, LOCK_SH) == 0 && flock(two, LOCK_SH) == 0);
    FAILS(EWOULDBLOCK, flock(one, LOCK_EX | LOCK_NB));
    // The failed change lost the shared one as well, or kept it: either way it can be given back.
    CHECK(flock(one, LOCK_UN) == 0 && flock(two, LOCK_EX | LOCK_NB) == 0);
    FAILS(EWOULDBLOCK, flock(one, LOCK_SH | LOCK_NB));
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) _exit(flock(two, LOCK_UN) != 0);
    CHECK_CHILD(pid);
    CHECK(flock(one, LOCK_EX | LOCK_NB) == 0);
    FAILS(EINVAL, flock(one, LOCK_SH | LOCK_EX));
}

static void waits_its_turn(void) {
    int fd = new_file("file", ""), ready[2];
    CHECK(pipe(ready) == 0);
    struct flock lock = range(F_WRLCK, 0, 0);
    CHECK(fcntl(fd, F_SETLK, &lock) == 0);
    for (int i = 0; i < 4; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            CHECK(write(ready[1], "r", 1) == 1);
            CHECK(fcntl(fd, F_SETLKW, &lock) == 0);
            char number = 0;
            CHECK(pread(fd, &number, 1, 0) >= 0);
            number++;
            CHECK(pwrite(fd, &number, 1, 0) == 1);
            _exit(0);
        }
    }
    char text[4];
    int status;
    for (int got = 0; got < 4;) got += (int)read(ready[0], text, 4);
    usleep(20000);
    lock.l_type = F_UNLCK;
    CHECK(fcntl(fd, F_SETLK, &lock) == 0);
    for (int i = 0; i < 4; i++) CHECK(wait(&status) > 0 && status == 0);
    must_hold("file", "\4");
}

static void deadlock_is_told(void) {
    int fd = new_file("file", ""), ready[2];
    CHECK(pipe(ready) == 0);
    struct flock mine = range(F_WRLCK, 0, 1), theirs = range(F_WRLCK, 1, 1);
    CHECK(fcntl(fd, F_SETLK, &mine) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(fcntl(fd, F_SETLK, &theirs) == 0 && write(ready[1], "r", 1) == 1);
        CHECK(fcntl(fd, F_SETLKW, &mine) == 0);
        _exit(0);
    }
    char byte;
    CHECK(read(ready[0], &byte, 1) == 1);
    usleep(100000);
    FAILS(EDEADLK, fcntl(fd, F_SETLKW, &theirs));
    mine.l_type = F_UNLCK;
    CHECK(fcntl(fd, F_SETLK, &mine) == 0);
    CHECK_CHILD(pid);
}

static void leases(void) {
    int fd = new_file("file", "");
    close(fd);
    CHECK((fd = open("file", O_RDONLY)) >= 0);
    CHECK(fcntl(fd, F_GETLEASE) == F_UNLCK && fcntl(fd, F_SETLEASE, F_RDLCK) == 0);
    CHECK(fcntl(fd, F_GETLEASE) == F_RDLCK);
    signal(SIGIO, SIG_IGN);
    FAILS(EWOULDBLOCK, open("file", O_WRONLY | O_NONBLOCK));
    CHECK(fcntl(fd, F_SETLEASE, F_UNLCK) == 0 && open("file", O_WRONLY | O_NONBLOCK) >= 0);
}

static void robust_and_futex(void) {
    pthread_mutex_t *mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(mutex != MAP_FAILED);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    CHECK(pthread_mutex_init(mutex, &attributes) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(pthread_mutex_lock(mutex) == 0);
        _exit(0);
    }
    CHECK_CHILD(pid);
    CHECK(pthread_mutex_lock(mutex) == EOWNERDEAD && pthread_mutex_consistent(mutex) == 0);
    CHECK(pthread_mutex_unlock(mutex) == 0 && pthread_mutex_lock(mutex) == 0);
    uint32_t word = 5;
    FAILS(EAGAIN, syscall(SYS_futex, &word, FUTEX_WAIT, 4, NULL, NULL, 0));
    FAILS(ETIMEDOUT, syscall(SYS_futex, &word, FUTEX_WAIT, 5, &(struct timespec){0, 1000000}, NULL, 0));
    CHECK(syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0) == 0);
}

static void lockf_and_wrong_uses(void) {
    int fd = new_file("file", "0123456789");
    CHECK(lseek(fd, 5, SEEK_SET) == 5 && lockf(fd, F_TLOCK, -3) == 0);
    CHECK(!is_free(F_WRLCK, 2, 3) && is_free(F_WRLCK, 5, 0));
    CHECK(lockf(fd, F_TEST, 0) == 0 && lockf(fd, F_ULOCK, -3) == 0 && is_free(F_WRLCK, 0, 0));
    int reader = open("file", O_RDONLY);
    struct flock lock = range(F_WRLCK, 0, 0);
    FAILS(EBADF, fcntl(reader, F_SETLK, &lock));
    lock = range(F_RDLCK, -1, 1);
    FAILS(EINVAL, fcntl(reader, F_SETLK, &lock));
    FAILS(EBADF, fcntl(99, F_SETLK, &lock));
    FAILS(EFAULT, fcntl(reader, F_SETLK, (void *)8));
}

CASES(
    {.name = "ranges", .function = ranges},
    {.name = "told_who_holds", .function = told_who_holds},
    {.name = "any_close_unlocks", .function = any_close_unlocks},
    {.name = "open_file_locks", .function = open_file_locks},
    {.name = "whole_files", .function = whole_files},
    {.name = "waits_its_turn", .function = waits_its_turn},
    {.name = "deadlock_is_told", .function = deadlock_is_told},
    {.name = "leases", .function = leases},
    {.name = "robust_and_futex", .function = robust_and_futex},
    {.name = "lockf_and_wrong_uses", .function = lockf_and_wrong_uses}, )
