// The program filters its own calls: some fail, some raise SIGSYS, the rest go on. Such filters do
// not keep its threads, children and the programs they execute from being recorded.
// flags: -pthread
#include "expect.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
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

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)

static void *in_thread(void *unused) {
    for (int i = 0; i < 10; i++) CHECK(syscall(SYS_getpgid, 0) == -1 && errno == EXDEV);
    CHECK(syscall(SYS_getsid, 0) == 4321);
    return unused;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    struct sigaction action = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0);
    struct sock_filter by_number[] = {
        LOAD(arch), IF(AUDIT_ARCH_X86_64, 1, 0), RETURN(SECCOMP_RET_KILL_PROCESS),
        LOAD(nr),   IF(SYS_getpgid, 0, 1),       RETURN(SECCOMP_RET_ERRNO | EXDEV),
        IF(SYS_getsid, 0, 1), RETURN(SECCOMP_RET_TRAP), RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof by_number / sizeof *by_number, by_number};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);

    // A second one, which computes and looks at arguments.
    struct sock_filter by_arguments[] = {
        LOAD(nr),
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_STMT(BPF_ALU | BPF_SUB | BPF_K, 10),
        BPF_STMT(BPF_ST, 3),
        BPF_STMT(BPF_LD | BPF_MEM, 3),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl - 10, 0, 4),
        LOAD(args[0]),
        IF(PR_SET_NAME, 0, 1),
        RETURN(SECCOMP_RET_ERRNO | EMLINK),
        RETURN(SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_MISC | BPF_TXA, 0),
        IF(SYS_mmap, 0, 3),
        LOAD(args[2]),
        IF(PROT_WRITE, 0, 1),
        RETURN(SECCOMP_RET_ERRNO | EDOM),
        RETURN(SECCOMP_RET_LOG),
    };
    struct sock_fprog second = {sizeof by_arguments / sizeof *by_arguments, by_arguments};
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &second) == 0);
    CHECK(prctl(PR_SET_NAME, "name", 0, 0, 0) == -1 && errno == EMLINK);
    CHECK(mmap(0, 4096, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EDOM);

    for (int i = 0; i < 50; i++) CHECK(syscall(SYS_getpgid, 0) == -1 && errno == EXDEV);
    EXPECT_ERRNO("getpgid", EXDEV);
    for (int i = 0; i < 50; i++) CHECK(syscall(SYS_getsid, 0) == 4321);
    CHECK(trapped == 50);
    char bytes[300];
    fill(bytes, sizeof bytes);
    int fd = open("file", O_RDWR | O_CREAT, 0600);
    CHECK(write(fd, bytes, sizeof bytes) == sizeof bytes);
    EXPECT("write", sizeof bytes, DATA(bytes, sizeof bytes));

    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        in_thread(NULL);
        fill(bytes, sizeof bytes);
        CHECK(pwrite(fd, bytes, sizeof bytes, 0) == sizeof bytes);
        execl("/bin/sh", "sh", "-c", "echo of the new image > by-image; /bin/true; :", NULL);
        _exit(1);
    }
    CHECK_CHILD(pid);
    fill(bytes, sizeof bytes);
    EXPECT("pwrite64", sizeof bytes, DATA(bytes, sizeof bytes));
    EXPECT("write", 17, DATA("of the new image\n", 17));
    EXPECT_COUNT("getpgid", 70);
    return 0;
}
