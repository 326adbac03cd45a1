// Every verdict that a filter can have, filters on top of each other, for one thread and for all,
// and inherited by children and images: what the program sees of each.
// flags: -pthread
// gaps: not-followed
// count: off
#include "expect.h"
#include "filter.h"
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>

static volatile int go;

static void errors(void) {
    INSTALL(ANSWER(SYS_getpgid, SECCOMP_RET_ERRNO | EXDEV), ANSWER(SYS_getsid, SECCOMP_RET_ERRNO | 4095),
            ANSWER(SYS_sched_yield, SECCOMP_RET_ERRNO | 5000), ANSWER(SYS_getuid, SECCOMP_RET_ERRNO | 0),
            ANSWER(SYS_openat, SECCOMP_RET_ERRNO | EMLINK), RETURN(SECCOMP_RET_ALLOW));
    for (int i = 0; i < 6; i++) {
        CHECK(syscall(SYS_getpgid, 0) == -1 && errno == EXDEV);
        CHECK(syscall(SYS_getsid, 0) == -1 && errno == 4095);
        CHECK(syscall(SYS_sched_yield) == -1 && errno == 4095);
        CHECK(syscall(SYS_getuid) == 0);
        CHECK(open("file", O_RDWR | O_CREAT, 0600) == -1 && errno == EMLINK);
    }
}
// Of several filters the strictest verdict counts, and of equals the last one installed.
static void stacked(void) {
    INSTALL(ANSWER(SYS_getpgid, SECCOMP_RET_ERRNO | EXDEV), ANSWER(SYS_getsid, SECCOMP_RET_LOG),
            RETURN(SECCOMP_RET_ALLOW));
    INSTALL(ANSWER(SYS_getpgid, SECCOMP_RET_ERRNO | EDOM), ANSWER(SYS_getsid, SECCOMP_RET_ERRNO | EDOM),
            RETURN(SECCOMP_RET_ALLOW));
    CHECK(syscall(SYS_getpgid, 0) == -1 && errno == EDOM);
    CHECK(syscall(SYS_getsid, 0) == -1 && errno == EDOM);
    INSTALL(ANSWER(SYS_getpgid, SECCOMP_RET_ALLOW), ANSWER(SYS_getsid, SECCOMP_RET_TRACE), RETURN(SECCOMP_RET_ALLOW));
    CHECK(syscall(SYS_getpgid, 0) == -1 && errno == EDOM && syscall(SYS_getsid, 0) == -1 && errno == EDOM);
    INSTALL(ANSWER(SYS_getpgid, SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW));
    syscall(SYS_getpgid, 0);
}
static void logged(void) {
    INSTALL(ANSWER(SYS_getpgid, SECCOMP_RET_LOG), RETURN(SECCOMP_RET_ALLOW));
    for (int i = 0; i < 6; i++) CHECK(syscall(SYS_getpgid, 0) >= 0);
}
// Nobody traces: such calls do not exist.
static void traced_by_nobody(void) {
    INSTALL(ANSWER(SYS_getpgid, SECCOMP_RET_TRACE | 5), RETURN(SECCOMP_RET_ALLOW));
    for (int i = 0; i < 6; i++) CHECK(syscall(SYS_getpgid, 0) == -1 && errno == ENOSYS);
}
static void unknown_verdict(void) {
    INSTALL(ANSWER(SYS_getpgid, 0x12340000), RETURN(SECCOMP_RET_ALLOW));
    syscall(SYS_getpgid, 0);
}
static void kill_process(void) {
    INSTALL(ANSWER(SYS_getpgid, SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW));
    syscall(SYS_getpgid, 0);
}
static void *get_killed(void *unused) { return syscall(SYS_getpgid, 0), go = 2, unused; }
static void kill_thread(void) {
    INSTALL(ANSWER(SYS_getpgid, SECCOMP_RET_KILL_THREAD), RETURN(SECCOMP_RET_ALLOW));
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, get_killed, NULL) == 0 && pthread_join(thread, NULL) == 0);
        CHECK(go == 0 && getppid() > 0);
    }
    syscall(SYS_getpgid, 0); // the last thread
}

static void *wait_and_ask(void *result) {
    while (!go) syscall(SYS_sched_yield);
    *(int *)result = syscall(SYS_getpgid, 0) < 0 ? errno : 0;
    return NULL;
}
static void for_threads(unsigned int flags, int expected) {
    int results[3] = {-1, -1, -1};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, wait_and_ask, &results[i]) == 0);
    CHECK(INSTALL_WITH(flags, ANSWER(SYS_getpgid, SECCOMP_RET_ERRNO | EXDEV), RETURN(SECCOMP_RET_ALLOW)) == 0);
    go = 1;
    for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0 && results[i] == expected);
    CHECK(syscall(SYS_getpgid, 0) == -1 && errno == EXDEV);
}
static void one_thread(void) { for_threads(0, 0); }
static void all_threads(void) { for_threads(SECCOMP_FILTER_FLAG_TSYNC, EXDEV); }
// A thread with a filter of its own cannot be given another one: its id is the answer, nothing changes.
static void *own_filter(void *tid) {
    INSTALL(ANSWER(SYS_getsid, SECCOMP_RET_ERRNO | EDOM), RETURN(SECCOMP_RET_ALLOW));
    *(volatile long *)tid = syscall(SYS_gettid);
    while (!go) syscall(SYS_sched_yield);
    return NULL;
}
static void not_for_all(void) {
    pthread_t thread;
    volatile long tid = 0;
    CHECK(pthread_create(&thread, NULL, own_filter, (void *)&tid) == 0);
    while (tid == 0) syscall(SYS_sched_yield);
    CHECK(INSTALL_WITH(SECCOMP_FILTER_FLAG_TSYNC, ANSWER(SYS_shmat, SECCOMP_RET_KILL_PROCESS),
                       RETURN(SECCOMP_RET_ALLOW)) == tid);
    CHECK(syscall(SYS_shmat, -1, NULL, 0) == -1 && errno == EINVAL);
    go = 1;
    CHECK(pthread_join(thread, NULL) == 0);
}
static void refused(void) {
    struct sock_filter loops[] = {LOAD(nr), BPF_STMT(BPF_JMP | BPF_JA, (unsigned)-2), RETURN(SECCOMP_RET_ALLOW)};
    struct sock_fprog bad = {3, loops}, empty = {0, loops}, nowhere = {3, (void *)8};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &bad) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &empty) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &nowhere) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 1 << 20, &bad) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_seccomp, 77, 0, NULL) == -1 && errno == EINVAL);
    CHECK(prctl(PR_SET_SECCOMP, (1l << 32) | SECCOMP_MODE_FILTER, &bad) == -1 && errno == EINVAL);
    CHECK(prctl(PR_GET_SECCOMP) == 0);
    uint32_t action = SECCOMP_RET_USER_NOTIF;
    CHECK(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0);
}
static void inherited(void) {
    INSTALL(ANSWER(SYS_getpgid, SECCOMP_RET_ERRNO | EXDEV), RETURN(SECCOMP_RET_ALLOW));
    CHECK(prctl(PR_GET_SECCOMP) == SECCOMP_MODE_FILTER);
    execl("/proc/self/exe", "image", "7", "image", NULL);
    _exit(1);
}
static void strict(void) {
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    for (int i = 0; i < 6; i++) syscall(SYS_write, -1, "", 1);
    syscall(SYS_exit, 6);
}
static void strict_and_more(void) {
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL) == 0);
    syscall(SYS_getppid);
}

// Another process decides. It reads the arguments, answers with an error, a value, or lets it be made.
static void notified(void) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        long listener = INSTALL_WITH(SECCOMP_FILTER_FLAG_NEW_LISTENER,
                                     ANSWER(SYS_getpgid, SECCOMP_RET_USER_NOTIF),
                                     ANSWER(SYS_dup, SECCOMP_RET_ERRNO | ENOTTY), RETURN(SECCOMP_RET_ALLOW));
        CHECK(listener > 0 && fcntl(listener, F_GETFD) == FD_CLOEXEC);
        CHECK(dup(0) == -1 && errno == ENOTTY);
        char byte = 0;
        struct iovec vector = {&byte, 1};
        union { char room[CMSG_SPACE(sizeof(int))]; struct cmsghdr head; } control = {0};
        struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
        control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        int fd = (int)listener;
        memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
        CHECK(sendmsg(pair[1], &message, 0) == 1 && close(fd) == 0);
        for (int i = 0; i < 4; i++) {
            CHECK(syscall(SYS_getpgid, 1000001) == -1 && errno == EXDEV);
            CHECK(syscall(SYS_getpgid, 1000002) == 4711);
            CHECK(syscall(SYS_getpgid, 0) == getpgrp());
        }
        _exit(0);
    }
    char byte;
    struct iovec vector = {&byte, 1};
    union { char room[CMSG_SPACE(sizeof(int))]; struct cmsghdr head; } control;
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    CHECK(recvmsg(pair[0], &message, 0) == 1);
    int listener;
    memcpy(&listener, CMSG_DATA(&control.head), sizeof listener);
    for (int i = 0; i < 12; i++) {
        struct seccomp_notif asked = {0};
        CHECK(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) == 0);
        CHECK(asked.pid == (uint32_t)pid && asked.data.nr == SYS_getpgid && asked.data.arch == AUDIT_ARCH_X86_64);
        struct seccomp_notif_resp answer = {.id = asked.id};
        if (asked.data.args[0] == 1000001) answer.error = -EXDEV;
        else if (asked.data.args[0] == 1000002) answer.val = 4711;
        else answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        CHECK(ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0);
    }
    CHECK_CHILD(pid);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    if (argc > 2) {
        CHECK(prctl(PR_GET_SECCOMP) == SECCOMP_MODE_FILTER);
        for (int i = 0; i < 10; i++) CHECK(syscall(SYS_getpgid, 0) == -1 && errno == EXDEV);
        return 3;
    }
    // Those who die here leave no core files: files are compared.
    CHECK(setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) == 0);
#define CASE(f) {#f, f}
    static const struct { const char *name; void (*run)(void); } cases[] = {
        CASE(errors), CASE(stacked), CASE(logged), CASE(traced_by_nobody), CASE(unknown_verdict),
        CASE(kill_process), CASE(kill_thread), CASE(one_thread), CASE(all_threads),
        CASE(not_for_all), CASE(refused), CASE(inherited), CASE(strict), CASE(strict_and_more),
        CASE(notified),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            cases[i].run();
            syscall(SYS_exit_group, 0);
        }
        case_ended(cases[i].name, wait_for(pid) & 0xff7f);
    }
    return 0;
}
