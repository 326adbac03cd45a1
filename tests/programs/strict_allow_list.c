// A filter that allows only what the program itself needs, as sandboxes have it.
#include "expect.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#define ALLOW(nr) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

int main(int argc, char **argv) {
    begin(argc, argv);
    int fd = open("file", O_RDWR | O_CREAT, 0600);
    char bytes[2000], got[2000];
    fill(bytes, sizeof bytes);
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_pwrite64),
        ALLOW(SYS_pread64),
        ALLOW(SYS_getppid),
        ALLOW(SYS_write),
        ALLOW(SYS_exit_group),
        ALLOW(SYS_rt_sigreturn),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    for (int i = 0; i < 20; i++) {
        CHECK(pwrite(fd, bytes, sizeof bytes, 0) == sizeof bytes);
        CHECK(pread(fd, got, sizeof got, 0) == sizeof got && memcmp(bytes, got, sizeof got) == 0);
        CHECK(syscall(SYS_getppid) > 0);
    }
    EXPECT("pread64", sizeof got, DATA(got, sizeof got));
    EXPECT_COUNT("pwrite64", 20);
    EXPECT_COUNT("getppid", 20);
    printf("still here\n");
    fflush(stdout);
    _exit(0);
}
