// Credentials: users, groups, capabilities, secure bits, and what they let through.
#include "cases.h"
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>

static void three(uid_t r, uid_t e, uid_t s) {
    uid_t real, effective, saved;
    CHECK(getresuid(&real, &effective, &saved) == 0 && real == r && effective == e && saved == s);
}

static void ids_of_a_user(void) {
    uid_t me = getuid();
    three(me, me, me);
    FAILS(EPERM, setuid(0));
    FAILS(EPERM, setgid(0));
    FAILS(EPERM, setresuid(me, 5, me));
    FAILS(EPERM, setgroups(0, NULL));
    CHECK(setreuid(me, me) == 0 && seteuid(me) == 0 && setresuid((uid_t)-1, me, (uid_t)-1) == 0);
    CHECK(setfsuid(0) == (int)me && setfsuid((uid_t)-1) == (int)me);
}

static void given_up_for_good(void) {
    close(new_file("file", "root's"));
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(setgroups(0, NULL) == 0 && setresgid(1000, 1000, 1000) == 0 && setresuid(1000, 1000, 1000) == 0);
        three(1000, 1000, 1000);
        FAILS(EPERM, setuid(0));
        FAILS(EPERM, seteuid(0));
        FAILS(EACCES, open("file", O_WRONLY));
        _exit(0);
    }
    CHECK_CHILD(pid);
}

static void given_up_and_taken_back(void) {
    CHECK(mkdir("open", 0777) == 0 && chmod("open", 0777) == 0);
    close(new_file("closed", "x"));
    CHECK(chmod("closed", 0600) == 0 && seteuid(1000) == 0);
    three(0, 1000, 0);
    FAILS(EACCES, open("closed", O_RDONLY));
    close(new_file("open/theirs", "made by 1000"));
    CHECK(seteuid(0) == 0);
    must_hold("closed", "x");
    struct stat stat;
    CHECK(lstat("open/theirs", &stat) == 0 && stat.st_uid == 1000 && stat.st_gid == 0);
}

static void of_file_systems(void) {
    CHECK(mkdir("open", 0777) == 0 && chmod("open", 0777) == 0);
    CHECK(setfsuid(1001) == 0 && setfsgid(1002) == 0);
    close(new_file("open/file", "x"));
    CHECK(setfsuid(0) == 1001 && setfsgid(0) == 1002 && geteuid() == 0);
    struct stat stat;
    CHECK(lstat("open/file", &stat) == 0 && stat.st_uid == 1001 && stat.st_gid == 1002);
}

static void groups(void) {
    gid_t some[5] = {100, 200, 300, 300, 50}, found[10];
    CHECK(setgroups(5, some) == 0 && getgroups(10, found) == 5);
    FAILS(EINVAL, getgroups(3, found));
    CHECK(getgroups(0, NULL) == 5);
    close(new_file("file", "x"));
    CHECK(chown("file", 7, 200) == 0 && chmod("file", 0060) == 0 && setegid(1) == 0 && seteuid(1) == 0);
    int fd = open("file", O_RDWR);
    CHECK(fd >= 0);
    CHECK(seteuid(0) == 0 && setgroups(0, NULL) == 0 && seteuid(1) == 0);
    FAILS(EACCES, open("file", O_RDWR));
    CHECK(write(fd, "y", 1) == 1 && seteuid(0) == 0 && chmod("file", 0644) == 0);
}

static struct __user_cap_data_struct *capabilities(void) {
    static struct __user_cap_data_struct data[2];
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    CHECK(syscall(SYS_capget, &header, data) == 0);
    return data;
}

static void capabilities_dropped(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct *data = capabilities();
    close(new_file("file", "x"));
    CHECK(chown("file", 5, 5) == 0 && chmod("file", 0600) == 0);
    data[0].effective &= ~(1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH | 1u << CAP_CHOWN);
    CHECK(syscall(SYS_capset, &header, data) == 0);
    FAILS(EACCES, open("file", O_RDONLY));
    FAILS(EPERM, chown("file", 0, 0));
    data[0].effective |= 1u << CAP_DAC_OVERRIDE;
    CHECK(syscall(SYS_capset, &header, data) == 0 && open("file", O_RDONLY) >= 0);
    data[0].permitted &= ~(1u << CAP_CHOWN);
    CHECK(syscall(SYS_capset, &header, data) == 0);
    data[0].permitted |= 1u << CAP_CHOWN;
    FAILS(EPERM, syscall(SYS_capset, &header, data));
}

static void kept_over_setuid(void) {
    CHECK(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0 && setresuid(1000, 1000, 1000) == 0);
    struct __user_cap_data_struct *data = capabilities();
    CHECK(data[0].effective == 0 && data[0].permitted & 1u << CAP_CHOWN);
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    data[0].effective = data[0].permitted;
    data[1].effective = data[1].permitted;
    CHECK(syscall(SYS_capset, &header, data) == 0);
    close(new_file("file", "x"));
    CHECK(chown("file", 33, 33) == 0 && access("file", F_OK) == 0);
}

static void bounds_and_bits(void) {
    CHECK(prctl(PR_CAPBSET_READ, CAP_SYS_TIME, 0, 0, 0) >= 0);
    FAILS(EINVAL, prctl(PR_CAPBSET_READ, 99, 0, 0, 0));
    if (geteuid() != 0) {
        FAILS(EPERM, prctl(PR_CAPBSET_DROP, CAP_SYS_TIME, 0, 0, 0));
        FAILS(EPERM, prctl(PR_SET_SECUREBITS, SECBIT_NOROOT, 0, 0, 0));
        return;
    }
    CHECK(prctl(PR_CAPBSET_DROP, CAP_SYS_TIME, 0, 0, 0) == 0 && prctl(PR_CAPBSET_READ, CAP_SYS_TIME, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) == 0 && setresuid(1000, 1000, 1000) == 0);
    CHECK(capabilities()[0].effective & 1u << CAP_CHOWN);
}

static void new_user_of_exec(void) {
    CHECK(chmod(".", 0777) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(setgroups(0, NULL) == 0 && setgid(1000) == 0 && setuid(1000) == 0);
        execl("/bin/sh", "sh", "-c", "id -u > who; id -g >> who; echo more > other", (char *)NULL);
        _exit(9);
    }
    CHECK_CHILD(pid);
    must_hold("who", "1000\n1000\n");
    struct stat stat;
    CHECK(lstat("other", &stat) == 0 && stat.st_uid == 1000);
}

static void signals_between_users(void) {
    pid_t victim = fork();
    CHECK(victim >= 0);
    if (victim == 0) for (;;) pause();
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(setresuid(1000, 1000, 1000) == 0);
        FAILS(EPERM, kill(victim, SIGTERM));
        FAILS(EPERM, kill(victim, 0));
        _exit(0);
    }
    CHECK_CHILD(pid);
    CHECK(kill(victim, SIGTERM) == 0 && WTERMSIG(wait_for(victim)) == SIGTERM);
}

CASES(
    {.name = "bounds_and_bits", .function = bounds_and_bits},
    {.name = "ids_of_a_user", .function = ids_of_a_user, .needs = "user"},
    {.name = "given_up_for_good", .function = given_up_for_good, .needs = "root"},
    {.name = "given_up_and_taken_back", .function = given_up_and_taken_back, .needs = "root"},
    {.name = "of_file_systems", .function = of_file_systems, .needs = "root"},
    {.name = "groups", .function = groups, .needs = "root"},
    {.name = "capabilities_dropped", .function = capabilities_dropped, .needs = "root"},
    {.name = "kept_over_setuid", .function = kept_over_setuid, .needs = "root"},
    {.name = "new_user_of_exec", .function = new_user_of_exec, .needs = "root"},
    {.name = "signals_between_users", .function = signals_between_users, .needs = "root"}, )
