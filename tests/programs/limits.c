// Resource limits and usage, system information.
#include "expect.h"
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    struct rlimit limit, old;
    CHECK(syscall(SYS_getrlimit, RLIMIT_NOFILE, &limit) == 0);
    EXPECT("getrlimit", 0, DATA(&limit, sizeof limit), TEXT("RLIMIT_NOFILE"));
    limit.rlim_cur = 100;
    CHECK(syscall(SYS_setrlimit, RLIMIT_NOFILE, &limit) == 0);
    EXPECT("setrlimit", 0, DATA(&limit, sizeof limit));
    limit.rlim_cur = 90;
    CHECK(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &limit, &old) == 0 && old.rlim_cur == 100);
    EXPECT("prlimit64", 0, DATA(&limit, sizeof limit), DATA(&old, sizeof old));
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    EXPECT("getrusage", 0, DATA(&usage, sizeof usage), TEXT("RUSAGE_SELF"));
    struct sysinfo info;
    memset(&info, 0, sizeof info);
    CHECK(sysinfo(&info) == 0);
    EXPECT("sysinfo", 0, DATA(&info, sizeof info));
    struct utsname name;
    CHECK(uname(&name) == 0);
    EXPECT("uname", 0, DATA(&name, sizeof name));
    CHECK(syscall(SYS_getrlimit, 999, &limit) == -1 && errno == EINVAL);
    EXPECT_ERRNO("getrlimit", EINVAL);
    return 0;
}
