// count: off
// gaps: unwatched not-followed
// Stores to mapped files by programs that let few calls through: what watches them must not be the
// death of them.
#include "expect.h"
#include "filter.h"
#include <sys/mman.h>

enum { PAGE = 4096, LEN = 8 * PAGE };

static char *mapped(const char *name, int *fd) {
    *fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(*fd >= 0 && ftruncate(*fd, LEN) == 0);
    char *at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

// Nothing but what it needs itself.
static void strict(void) {
    int fd;
    char *at = mapped("strict", &fd);
    fill(at, PAGE);
    CHECK(fsync(fd) == 0);
    INSTALL(ALLOW(SYS_fsync), ALLOW(SYS_msync), ALLOW(SYS_munmap), ALLOW(SYS_write), ALLOW(SYS_exit_group),
            RETURN(SECCOMP_RET_KILL_PROCESS));
    fill(at + PAGE, PAGE);
    CHECK(fsync(fd) == 0);
    fill(at + 2 * PAGE, PAGE);
    CHECK(msync(at, LEN, MS_SYNC) == 0);
    CHECK(munmap(at, LEN) == 0);
}

// The mapping comes after the filter, which forbids what only a watch would need.
static void later(void) {
    INSTALL(ANSWER(SYS_userfaultfd, SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW));
    int fd;
    char *at = mapped("later", &fd);
    fill(at, PAGE);
    CHECK(fsync(fd) == 0);
    CHECK(munmap(at, LEN) == 0);
}

// The filter comes after the mapping, and the mapping goes on.
static void between(void) {
    int fd;
    char *at = mapped("between", &fd);
    INSTALL(ANSWER(SYS_userfaultfd, SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW));
    fill(at, PAGE);
    CHECK(fsync(fd) == 0);
    char *other = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(other != MAP_FAILED);
    fill(other + PAGE, PAGE);
    pid_t pid = fork();
    if (pid == 0) {
        fill(other + 2 * PAGE, PAGE);
        CHECK(fsync(fd) == 0);
        _exit(0);
    }
    CHECK_CHILD(pid);
    CHECK(memcmp(at, other, LEN) == 0 && munmap(at, LEN) == 0 && munmap(other, LEN) == 0);
}

// What may only be read at first becomes writable, and is the file's all the same. `harmless`: by a filter that has
// nothing against a watch.
static void made_writable(int harmless) {
    if (harmless) INSTALL(ANSWER(SYS_reboot, SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW));
    if (!harmless)
        INSTALL(ANSWER(SYS_userfaultfd, SECCOMP_RET_KILL_PROCESS), ANSWER(SYS_fcntl, SECCOMP_RET_KILL_PROCESS),
                RETURN(SECCOMP_RET_ALLOW));
    int fd = open("writable", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, LEN) == 0);
    char *at = mmap(NULL, LEN, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED && mprotect(at, LEN, PROT_READ | PROT_WRITE) == 0);
    fill(at, PAGE);
    static char read[PAGE];
    CHECK(pread(fd, read, PAGE, 0) == PAGE && memcmp(read, at, PAGE) == 0);
    CHECK(munmap(at, LEN) == 0 && close(fd) == 0);
}

static void writable_unwatched(void) {
    made_writable(0);
}

static void writable_watched(void) {
    made_writable(1);
}

static void harmless(void) {
    INSTALL(ANSWER(SYS_reboot, SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW));
    int fd;
    char *at = mapped("harmless", &fd);
    fill(at, PAGE);
    CHECK(fsync(fd) == 0);
    CHECK(munmap(at, LEN) == 0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    run_case("strict", strict);
    run_case("later", later);
    run_case("between", between);
    run_case("writable_unwatched", writable_unwatched);
    run_case("writable_watched", writable_watched);
    run_case("harmless", harmless);
    return 0;
}
