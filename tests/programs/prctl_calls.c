// prctl and arch_prctl by operation.
#include "expect.h"
#include <asm/prctl.h>
#include <sys/prctl.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    char name[16] = "named-by-itself", got[16] = {0};
    CHECK(prctl(PR_SET_NAME, name) == 0);
    EXPECT("prctl", 0, TEXT("PR_SET_NAME"), TEXT("named-by-itself"));
    CHECK(prctl(PR_GET_NAME, got) == 0 && strcmp(got, name) == 0);
    EXPECT("prctl", 0, DATA(got, sizeof got), TEXT("PR_GET_NAME"));
    int signal = -1;
    CHECK(prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && prctl(PR_GET_PDEATHSIG, &signal) == 0);
    CHECK(signal == SIGTERM);
    EXPECT("prctl", 0, DATA(&signal, sizeof signal), TEXT("PR_GET_PDEATHSIG"));
    CHECK(prctl(PR_SET_PDEATHSIG, 0) == 0);
    CHECK(prctl(PR_GET_DUMPABLE) == 1);
    EXPECT("prctl", 1, TEXT("PR_GET_DUMPABLE"));
    int reaper = -1;
    CHECK(prctl(PR_GET_CHILD_SUBREAPER, &reaper) == 0);
    CHECK(reaper == 0);
    EXPECT("prctl", 0, DATA(&reaper, sizeof reaper), TEXT("PR_GET_CHILD_SUBREAPER"));
    CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0);
    CHECK(prctl(PR_GET_SECCOMP) == 0);
    CHECK(prctl(0x7fff0001) == -1 && errno == EINVAL);
    EXPECT_ERRNO("prctl", EINVAL);
    unsigned long base = 0;
    CHECK(syscall(SYS_arch_prctl, ARCH_GET_FS, &base) == 0 && base == (unsigned long)__builtin_thread_pointer());
    EXPECT("arch_prctl", 0, DATA(&base, sizeof base), TEXT("ARCH_GET_FS"));
    return 0;
}
