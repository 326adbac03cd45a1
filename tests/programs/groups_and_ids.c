// flags: -pthread
// count: off
// Process groups, sessions, parents, and user and group ids. After each change a write to /dev/null
// carries what the kernel says, from /proc, which no call on ids or groups has shown:
//
//     IS ppid=N pgid=N sid=N uid=N euid=N gid=N egid=N
#include "expect.h"
#include <grp.h>
#include <pthread.h>

static int nowhere;

static void field(const char *status, const char *name, unsigned *real, unsigned *effective) {
    const char *at = strstr(status, name);
    CHECK(at && sscanf(at + strlen(name), "%u %u", real, effective) == 2);
}

static void contents(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    ssize_t len = read(fd, text, size - 1);
    CHECK(len > 0 && close(fd) == 0);
    text[len] = 0;
}

static void say(void) {
    char text[4096];
    unsigned uid, euid, gid, egid;
    int ppid, pgid, sid;
    contents("/proc/thread-self/status", text, sizeof text);
    field(text, "\nUid:", &uid, &euid);
    field(text, "\nGid:", &gid, &egid);
    contents("/proc/self/stat", text, sizeof text);
    CHECK(sscanf(strrchr(text, ')') + 1, " %*c %d %d %d", &ppid, &pgid, &sid) == 3);
    int len = snprintf(text, sizeof text, "IS ppid=%d pgid=%d sid=%d uid=%u euid=%u gid=%u egid=%u",
                       ppid, pgid, sid, uid, euid, gid, egid);
    CHECK(write(nowhere, text, len) == len);
}

static void run_again(char *program) {
    execl(program, program, "0", "again", NULL);
    CHECK(!"executed");
}

static void a_session_of_its_own(void) {
    CHECK(setsid() == getpid());
    say();
    CHECK(setsid() == -1 && errno == EPERM);
    say();
}

static void between_groups(void) {
    pid_t group = getpgrp();
    CHECK(setpgid(0, 0) == 0 && getpgrp() != group);
    say();
    CHECK(setpgid(0, group) == 0 && getpgrp() == group);
    say();
    pid_t pid = fork();
    if (pid == 0) {
        a_session_of_its_own();
        _exit(0);
    }
    CHECK_CHILD(pid);
}

// In a group made for it, as nothing can return to one of outside the pid namespace.
static void groups_of_its_own(void) {
    say();
    CHECK(setpgid(0, 0) == 0);
    say();
    pid_t pid = fork();
    if (pid == 0) {
        between_groups();
        _exit(0);
    }
    CHECK_CHILD(pid);
}

// As a shell does it: the parent may be faster than the child.
static void grouped_by_its_parent(char *program) {
    int gate[2];
    CHECK(pipe(gate) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        CHECK(read(gate[0], &byte, 1) == 1);
        say();
        run_again(program);
    }
    CHECK(setpgid(pid, 0) == 0 && write(gate[1], "", 1) == 1);
    CHECK(close(gate[0]) == 0 && close(gate[1]) == 0);
    CHECK_CHILD(pid);
    say();
}

static void left_by_its_parent(void) {
    int end[2];
    CHECK(pipe(end) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        pid_t parent = getpid();
        if (fork() == 0) {
            while (getppid() == parent) usleep(1000);
            say();
            _exit(0);
        }
        _exit(0);
    }
    CHECK_CHILD(pid);
    char byte;
    CHECK(close(end[1]) == 0 && read(end[0], &byte, 1) == 0 && close(end[0]) == 0);
}

static void as_user(void) {
    uid_t uid = getuid();
    gid_t gid = getgid();
    CHECK(setuid(uid) == 0 && setgid(gid) == 0);
    CHECK(setreuid(uid, -1) == 0 && setregid(-1, gid) == 0);
    CHECK(setresuid(-1, uid, -1) == 0 && setresgid(gid, -1, gid) == 0);
    say();
    CHECK(setuid(uid + 1) == -1 && errno == EPERM);
    say();
}

static void *of_one_thread(void *unused) {
    CHECK(syscall(SYS_setresgid, -1, 17, -1) == 0 && syscall(SYS_setresuid, -1, 18, -1) == 0);
    say();
    return unused;
}

static void as_root(char *program) {
    say();
    gid_t groups[] = {21, 22};
    CHECK(setgroups(2, groups) == 0 && setresgid(1, 2, 3) == 0);
    say();
    CHECK(setgid(4) == 0);
    say();
    CHECK(setresuid(-1, 7, -1) == 0);
    say();
    // Not root at the moment: the effective id alone.
    CHECK(setuid(0) == 0);
    say();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, of_one_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    say();
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(setuid(9) == 0);
        say();
        CHECK(setuid(0) == -1 && errno == EPERM);
        say();
        run_again(program);
    }
    CHECK_CHILD(pid);
    CHECK(setreuid(5, 6) == 0);
    say();
    CHECK(setreuid(-1, 5) == 0);
    say();
    run_again(program);
}

int main(int argc, char **argv) {
    nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK(nowhere >= 0);
    if (argc > 2) {
        say();
        return 0;
    }
    begin(argc, argv);
    // They may be of outside the pid namespace: 0.
    CHECK(getpgrp() >= 0 && getsid(0) >= 0);
    say();
    pid_t pid = fork();
    if (pid == 0) {
        groups_of_its_own();
        _exit(0);
    }
    CHECK_CHILD(pid);
    grouped_by_its_parent(argv[0]);
    left_by_its_parent();
    pid = fork();
    if (pid == 0) {
        if (geteuid() == 0) as_root(argv[0]);
        as_user();
        _exit(0);
    }
    CHECK_CHILD(pid);
    EXPECT("setpgid", 0);
    EXPECT_ERRNO("setsid", EPERM);
    EXPECT_ERRNO("setuid", EPERM);
    return 0;
}
