// The program filters its own calls: some fail, some raise SIGSYS, the rest go on. Whether its
// children are recorded depends on what their filter lets the agent do; if not, the trace says so.
// gaps: not-followed
// count: off
#include "expect.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#ifndef SYS_SECCOMP
#define SYS_SECCOMP 1
#endif

static volatile sig_atomic_t trapped;

static void on_sigsys(int signal, siginfo_t *info, void *context) {
    (void)signal;
    CHECK(info->si_code == SYS_SECCOMP && info->si_syscall == SYS_getsid);
    trapped++;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 4321;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    struct sigaction action = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0);
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    for (int i = 0; i < 50; i++) CHECK(syscall(SYS_getpgid, 0) == -1 && errno == EXDEV);
    EXPECT_ERRNO("getpgid", EXDEV);
    for (int i = 0; i < 50; i++) CHECK(syscall(SYS_getsid, 0) == 4321);
    CHECK(trapped == 50);
    char bytes[300];
    fill(bytes, sizeof bytes);
    int fd = open("file", O_RDWR | O_CREAT, 0600);
    CHECK(write(fd, bytes, sizeof bytes) == sizeof bytes);
    EXPECT("write", sizeof bytes, DATA(bytes, sizeof bytes));
    pid_t pid = fork();
    if (pid == 0) _exit(syscall(SYS_getpgid, 0) == -1 && errno == EXDEV ? 0 : 1);
    CHECK_CHILD(pid);
    return 0;
}
