// Sandboxes: filters of every answer, Landlock, rights given up, and what follows into children.
// flags: -pthread
#include "cases.h"
#include "../programs/filter.h"
#include <linux/landlock.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static volatile sig_atomic_t trapped, trapped_number;

static void on_trap(int signal, siginfo_t *info, void *context) {
    (void)signal;
    CHECK(info->si_code == SYS_SECCOMP && info->si_errno == 77);
    trapped++;
    trapped_number = info->si_syscall;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 1234;
}

static void answers_errors(void) {
    INSTALL(ANSWER(SYS_mkdir, SECCOMP_RET_ERRNO | ENOSPC), ANSWER(SYS_getpgid, SECCOMP_RET_ERRNO | 0),
            RETURN(SECCOMP_RET_ALLOW));
    FAILS(ENOSPC, mkdir("never", 0755));
    FAILS(ENOENT, access("never", F_OK));
    CHECK(syscall(SYS_getpgid, 0) == 0 && mkdirat(AT_FDCWD, "made", 0755) == 0);
}

static void traps(void) {
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0);
    INSTALL(ANSWER(SYS_getsid, SECCOMP_RET_TRAP | 77), ANSWER(SYS_rmdir, SECCOMP_RET_TRAP | 77),
            RETURN(SECCOMP_RET_ALLOW));
    CHECK(mkdir("stays", 0755) == 0);
    CHECK(syscall(SYS_getsid, 0) == 1234 && trapped_number == SYS_getsid);
    CHECK(syscall(SYS_rmdir, "stays") == 1234 && trapped_number == SYS_rmdir && trapped == 2);
    CHECK(access("stays", F_OK) == 0);
}

static void kills(void) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        INSTALL(ANSWER(SYS_getsid, SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW));
        syscall(SYS_getsid, 0);
        _exit(0);
    }
    int status = wait_for(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}

static void strict(void) {
    int fds[2];
    char text[4] = "";
    CHECK(pipe(fds) == 0);
    for (int dies = 0; dies < 2; dies++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
            if (write(fds[1], "ok", 2) == 2 && dies) syscall(SYS_getpid);
            syscall(SYS_exit, 6);
        }
        int status = wait_for(pid);
        CHECK(dies ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 6);
        CHECK(read(fds[0], text, 4) == 2);
    }
}

static void by_arguments(void) {
    INSTALL(IF(SYS_fcntl, 0, 3), LOAD(args[1]), IF(F_SETFD, 0, 1), RETURN(SECCOMP_RET_ERRNO | EXFULL),
            LOAD(nr), RETURN(SECCOMP_RET_ALLOW));
    FAILS(EXFULL, fcntl(1, F_SETFD, 0));
    CHECK(fcntl(1, F_GETFD) == 0 && fcntl(1, F_GETFL) >= 0);
}

static void answered_by_another(void) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    int listener = (int)INSTALL_WITH(SECCOMP_FILTER_FLAG_NEW_LISTENER,
                                     ANSWER(SYS_getsid, SECCOMP_RET_USER_NOTIF), RETURN(SECCOMP_RET_ALLOW));
    CHECK(listener >= 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(syscall(SYS_getsid, 5) == 55);
        FAILS(ENOANO, syscall(SYS_getsid, 6));
        _exit(0);
    }
    for (int i = 0; i < 2; i++) {
        struct seccomp_notif asked = {0};
        CHECK(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) == 0);
        CHECK(asked.data.nr == SYS_getsid && asked.data.args[0] == 5u + (unsigned)i && asked.pid == (uint32_t)pid);
        struct seccomp_notif_resp answer = {.id = asked.id, .val = i ? 0 : 55, .error = i ? -ENOANO : 0};
        CHECK(ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0);
    }
    CHECK_CHILD(pid);
}

static void *unlink_it(void *path) { return (void *)(long)(unlink(path) == 0 ? 0 : errno); }

static void for_all_threads(void) {
    pthread_t thread;
    void *result;
    close(new_file("file", "x"));
    CHECK(INSTALL_WITH(SECCOMP_FILTER_FLAG_TSYNC, ANSWER(SYS_unlink, SECCOMP_RET_ERRNO | EUSERS),
                       RETURN(SECCOMP_RET_ALLOW)) == 0);
    CHECK(pthread_create(&thread, NULL, unlink_it, "file") == 0 && pthread_join(thread, &result) == 0);
    CHECK((long)result == EUSERS && access("file", F_OK) == 0);
}

static void follows_exec(void) {
    INSTALL(ANSWER(SYS_mkdir, SECCOMP_RET_ERRNO | EDQUOT), RETURN(SECCOMP_RET_ALLOW));
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", "mkdir a 2>/dev/null || echo refused > result; echo more >> result", (char *)NULL);
        _exit(9);
    }
    CHECK_CHILD(pid);
    must_hold("result", "refused\nmore\n");
    CHECK(prctl(PR_GET_SECCOMP) == 2 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
}

static void landlocked(void) {
    struct landlock_ruleset_attr all = {.handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE};
    CHECK(mkdir("open", 0755) == 0 && mkdir("shut", 0755) == 0);
    close(new_file("shut/file", "kept"));
    // The number of a version is no descriptor.
    int version = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    int noted = new_file("noted", "");
    if (version > 2) {
        CHECK(dup2(noted, version) == version);
        CHECK(syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) == version);
        CHECK(write(version, "still a file", 12) == 12);
    }
    int rules = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0);
    if (rules < 0) return;
    struct landlock_path_beneath_attr path = {.allowed_access = all.handled_access_fs, .parent_fd = open("open", O_PATH)};
    CHECK(syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &path, 0) == 0);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_landlock_restrict_self, rules, 0) == 0);
    close(new_file("open/file", "made"));
    FAILS(EACCES, open("shut/file", O_WRONLY));
    FAILS(EACCES, unlink("shut/file"));
    FAILS(EACCES, open("shut/new", O_WRONLY | O_CREAT, 0644));
    must_hold("shut/file", "kept");
}

static void filters_stack(void) {
    INSTALL(ANSWER(SYS_mkdir, SECCOMP_RET_ERRNO | EDOM), RETURN(SECCOMP_RET_ALLOW));
    INSTALL(ANSWER(SYS_mkdir, SECCOMP_RET_ERRNO | ERANGE), ANSWER(SYS_rmdir, SECCOMP_RET_ERRNO | EBADE), RETURN(SECCOMP_RET_ALLOW));
    // The last one in comes first, if both have the same to say.
    FAILS(ERANGE, mkdir("a", 0755));
    FAILS(EBADE, rmdir("a"));
    struct sock_filter wrong = RETURN(SECCOMP_RET_ALLOW);
    FAILS(EINVAL, syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &(struct sock_fprog){0, &wrong}));
    FAILS(EFAULT, syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (void *)8));
    FAILS(EINVAL, prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
}

CASES(
    {.name = "answers_errors", .function = answers_errors},
    {.name = "traps", .function = traps},
    {.name = "kills", .function = kills},
    {.name = "strict", .function = strict},
    {.name = "by_arguments", .function = by_arguments},
    {.name = "answered_by_another", .function = answered_by_another},
    {.name = "for_all_threads", .function = for_all_threads},
    {.name = "follows_exec", .function = follows_exec},
    {.name = "landlocked", .function = landlocked},
    {.name = "filters_stack", .function = filters_stack}, )
