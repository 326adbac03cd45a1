// needs: root
// flags: -pthread
// count: off
// Users change in all the ways that there are: for good and for a while, in threads, in children that
// share memory, before an exec and after it. All is recorded, and the calls do what they do natively.
#include "expect.h"
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>

#define SOMEBODY 65534
#define OTHER 65533

static void written(const char *name, size_t len) {
    char bytes[3000];
    fill(bytes, len);
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, bytes, len) == (ssize_t)len && close(fd) == 0);
    EXPECT("write", len, DATA(bytes, len));
}

static void calls(int count) {
    for (int i = 0; i < count; i++) CHECK(syscall(SYS_getpgid, 0) >= 0);
}

// What a child prints must reach the driver, too.
static void ends(void) {
    fflush(stdout);
    _exit(0);
}

static pid_t child(void) {
    fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    return pid;
}

static void *thread(void *wait) {
    pthread_barrier_wait(wait);
    pthread_barrier_wait(wait);
    CHECK(getuid() == SOMEBODY && geteuid() == SOMEBODY);
    calls(50);
    written("by-thread", 700);
    return NULL;
}

static void threads(void) {
    pthread_barrier_t wait;
    pthread_t ids[3];
    pthread_barrier_init(&wait, NULL, 2);
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&ids[i], NULL, i ? (void *)pause : thread, &wait) == 0);
    pthread_barrier_wait(&wait);
    // All threads change: the library has each make the call.
    CHECK(setresuid(SOMEBODY, SOMEBODY, SOMEBODY) == 0);
    pthread_barrier_wait(&wait);
    CHECK(pthread_join(ids[0], NULL) == 0);
    CHECK(setuid(0) == -1 && errno == EPERM);
    ends();
}

static int alone(void *unused) {
    (void)unused;
    // The bare call: this thread alone.
    CHECK(syscall(SYS_setresuid, SOMEBODY, SOMEBODY, SOMEBODY) == 0);
    calls(40);
    execl("/bin/sh", "sh", "-c", "id -u > by-vfork", NULL);
    _exit(1);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    CHECK(chmod(".", 01777) == 0);
    static char stack[64 << 10];

    // For a while.
    for (int i = 0; i < 20; i++) {
        CHECK(seteuid(SOMEBODY) == 0 && geteuid() == SOMEBODY);
        CHECK(seteuid(0) == 0);
    }
    written("as-root", 1000);

    // For good, with children and images.
    pid_t pid = child();
    if (pid == 0) {
        CHECK(setgroups(0, NULL) == 0 && setresgid(SOMEBODY, SOMEBODY, SOMEBODY) == 0);
        CHECK(setuid(SOMEBODY) == 0 && setuid(SOMEBODY) == 0);
        written("as-somebody", 1100);
        calls(30);
        pid = child();
        if (pid == 0) {
            calls(30);
            execl("/bin/sh", "sh", "-c", "id -u > by-image; /bin/true", NULL);
            _exit(1);
        }
        CHECK_CHILD(pid);
        ends();
    }
    CHECK_CHILD(pid);

    // To two users at once, and from there to one.
    pid = child();
    if (pid == 0) {
        CHECK(setresuid(OTHER, SOMEBODY, OTHER) == 0);
        written("as-two", 1200);
        CHECK(setresuid(SOMEBODY, SOMEBODY, SOMEBODY) == 0);
        written("as-one", 1300);
        ends();
    }
    CHECK_CHILD(pid);

    // An image of somebody who can become root again.
    pid = child();
    if (pid == 0) {
        CHECK(setresuid(0, SOMEBODY, SOMEBODY) == 0);
        execl("/bin/sh", "sh", "-c", "id -u > by-half; id -ru >> by-half", NULL);
        _exit(1);
    }
    CHECK_CHILD(pid);

    pid = child();
    if (pid == 0) threads();
    CHECK_CHILD(pid);

    // A child that shares memory; its maker stays what it was.
    pid = clone(alone, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    CHECK(pid > 0);
    CHECK_CHILD(pid);
    CHECK(getuid() == 0);
    written("as-root-again", 1400);

    // By a call of 32-bit programs.
    pid = child();
    if (pid == 0) {
        long ret;
        __asm__ volatile("int $0x80" : "=a"(ret) : "a"(213L), "b"(SOMEBODY) : "memory", "r8", "r9", "r10", "r11");
        CHECK(ret == 0 && getuid() == SOMEBODY);
        written("by-old-call", 1500);
        // A replay does not make calls of 32-bit programs: the file would be root's there.
        CHECK(unlink("by-old-call") == 0);
        ends();
    }
    CHECK_CHILD(pid);

    // Where segments of memory cannot be attached.
    pid = child();
    if (pid == 0) {
        CHECK(unshare(CLONE_NEWIPC) == 0);
        pid = child();
        if (pid == 0) {
            CHECK(setresuid(SOMEBODY, SOMEBODY, SOMEBODY) == 0);
            written("in-another-namespace", 1600);
            calls(20);
            execl("/bin/sh", "sh", "-c", "id -u > by-image-there", NULL);
            _exit(1);
        }
        CHECK_CHILD(pid);
        ends();
    }
    CHECK_CHILD(pid);
    EXPECT_COUNT("getpgid", 30 + 30 + 50 + 40 + 20);
    return 0;
}
