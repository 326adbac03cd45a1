// count: off
// needs: userns
// Processes of new pid namespaces that end before anybody has looked at them, and children that
// outlive their makers there: nobody waits for others that have the same ids outside.
#include "expect.h"
#include <linux/sched.h>
#include <sched.h>
#include <sys/mman.h>

static int own;
static int *ended;

static void enter(int flags) {
    CHECK(unshare(flags | own) == 0);
}

static void is_first(void) {
    CHECK(getpid() == 1);
    __atomic_add_fetch(ended, 1, __ATOMIC_SEQ_CST);
}

static pid_t clone_into(unsigned long flags) {
    struct clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
    return syscall(SYS_clone3, &args, sizeof args);
}

// A process that ends at once, the first of its namespace.
static void first_ends_at_once(int how) {
    pid_t pid;
    if (how == 0) {
        pid = clone_into(CLONE_NEWPID);
    } else if (how == 1) {
        pid = syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
    } else {
        enter(CLONE_NEWPID);
        pid = fork();
    }
    CHECK(pid >= 0);
    if (pid == 0) {
        is_first();
        _exit(0);
    }
    CHECK_CHILD(pid);
}

// Children of the first, some of which end at once and some of which outlive their makers.
static void family(void) {
    enter(CLONE_NEWPID);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        is_first();
        for (int i = 0; i < 8; i++) {
            pid_t child = fork();
            if (child == 0) {
                if (i % 2 == 0 && fork() == 0) {
                    // Its parent is gone soon; the first one waits for it.
                    usleep(1000 * i);
                    _exit(0);
                }
                _exit(0);
            }
            CHECK(child > 0);
        }
        while (wait(NULL) > 0) continue;
        _exit(0);
    }
    CHECK_CHILD(pid);
}

// The first process ends and takes the others with it, in whatever they are.
static void first_leaves_others(void) {
    enter(CLONE_NEWPID);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        is_first();
        for (int i = 0; i < 4; i++) {
            if (fork() == 0) {
                if (i == 1) execl("/bin/sleep", "sleep", "1000", NULL);
                for (;;) pause();
            }
        }
        usleep(500);
        _exit(0);
    }
    CHECK_CHILD(pid);
}

static void nested(int depth) {
    enter(CLONE_NEWPID);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        is_first();
        if (depth > 1) nested(depth - 1);
        _exit(0);
    }
    CHECK_CHILD(pid);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    ended = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(ended != MAP_FAILED);
    if (geteuid() != 0) own = CLONE_NEWUSER;
    int expected = 0;
    for (int round = 0; round < 24; round++) {
        fflush(stdout);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            if (own) enter(CLONE_NEWUSER);
            own = 0;
            if (round % 6 < 3) first_ends_at_once(round % 6);
            if (round % 6 == 3) family();
            if (round % 6 == 4) first_leaves_others();
            if (round % 6 == 5) nested(4);
            _exit(0);
        }
        CHECK_CHILD(pid);
        expected += round % 6 == 5 ? 4 : 1;
    }
    printf("%d of %d\n", *ended, expected);
    EXPECT_COUNT("getpid", expected);
    return 0;
}
