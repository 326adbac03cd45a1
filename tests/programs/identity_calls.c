// Who we are and where we run: ids, groups, capabilities, scheduling, random bytes.
#include "expect.h"
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/resource.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    EXPECT("getpid", syscall(SYS_getpid));
    EXPECT("getppid", syscall(SYS_getppid));
    EXPECT("gettid", syscall(SYS_gettid));
    EXPECT("getuid", syscall(SYS_getuid));
    EXPECT("geteuid", syscall(SYS_geteuid));
    EXPECT("getgid", syscall(SYS_getgid));
    EXPECT("getegid", syscall(SYS_getegid));
    uid_t uids[3];
    CHECK(getresuid(&uids[0], &uids[1], &uids[2]) == 0);
    EXPECT("getresuid", 0, DATA(&uids[0], 4), DATA(&uids[1], 4), DATA(&uids[2], 4));
    gid_t gids[3];
    CHECK(getresgid(&gids[0], &gids[1], &gids[2]) == 0);
    EXPECT("getresgid", 0, DATA(&gids[0], 4), DATA(&gids[1], 4), DATA(&gids[2], 4));
    gid_t groups[100];
    int n = getgroups(100, groups);
    CHECK(n >= 0);
    if (n > 0)
        EXPECT("getgroups", n, DATA(groups, (size_t)n * sizeof *groups));
    else
        EXPECT("getgroups", 0);
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct caps[2];
    CHECK(syscall(SYS_capget, &head, caps) == 0);
    EXPECT("capget", 0, DATA(caps, sizeof caps));
    EXPECT("getpgid", getpgid(0));
    EXPECT("getsid", getsid(0));
    unsigned long cpus[16] = {0};
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof cpus, cpus);
    CHECK(bytes > 0);
    EXPECT("sched_getaffinity", bytes, DATA(cpus, (size_t)bytes));
    struct sched_param param;
    CHECK(sched_getparam(0, &param) == 0);
    EXPECT("sched_getparam", 0, DATA(&param, sizeof param));
    CHECK(sched_yield() == 0);
    EXPECT("sched_yield", 0);
    EXPECT("sched_getscheduler", sched_getscheduler(0));
    EXPECT("getpriority", syscall(SYS_getpriority, PRIO_PROCESS, 0), TEXT("PRIO_PROCESS"));
    unsigned cpu, node;
    CHECK(syscall(SYS_getcpu, &cpu, &node, NULL) == 0);
    EXPECT("getcpu", 0, DATA(&cpu, 4), DATA(&node, 4));
    char random_bytes[3000];
    CHECK(getrandom(random_bytes, sizeof random_bytes, 0) == sizeof random_bytes);
    EXPECT("getrandom", sizeof random_bytes, DATA(random_bytes, sizeof random_bytes));
    return 0;
}
