// Namespaces of every kind: what is seen inside, what is numbered anew, who ends when.
#include "cases.h"
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>

// New namespaces; within a new user namespace as well for who is not root.
static void enter(int kinds) {
    char map[40];
    uid_t uid = geteuid();
    gid_t gid = getegid();
    CHECK(unshare(kinds | (uid ? CLONE_NEWUSER : 0)) == 0);
    if (!uid) return;
    put("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "0 %u 1", uid);
    put("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "0 %u 1", gid);
    put("/proc/self/gid_map", map);
}

static void user_ids(void) {
    char map[60], text[200] = "";
    uid_t uid = geteuid();
    gid_t gid = getegid();
    CHECK(unshare(CLONE_NEWUSER) == 0 && geteuid() == 65534);
    put("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "77 %u 1\n", uid);
    put("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "88 %u 1\n", gid);
    put("/proc/self/gid_map", map);
    CHECK(geteuid() == 77 && getegid() == 88);
    FAILS(EINVAL, setuid(5));
    close(new_file("file", "x"));
    struct stat stat;
    CHECK(lstat("file", &stat) == 0 && stat.st_uid == 77 && stat.st_gid == 88);
    int fd = open("/proc/self/uid_map", O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, sizeof text) > 0 && atoi(text) == 77);
}

static void first_of_its_pids(void) {
    enter(CLONE_NEWPID);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(getpid() == 1 && getppid() == 0);
        for (int i = 2; i < 12; i++) {
            pid_t inner = fork();
            CHECK(inner >= 0);
            if (inner == 0) _exit(getpid() == i && getppid() == 1 ? 0 : 1);
            CHECK(inner == i);
            CHECK_CHILD(inner);
        }
        FAILS(ESRCH, kill(4000000, 0));
        _exit(0);
    }
    CHECK_CHILD(pid);
}

static void ends_with_its_first(void) {
    int fds[2];
    char byte;
    CHECK(pipe(fds) == 0);
    enter(CLONE_NEWPID);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        for (int i = 0; i < 3; i++)
            if (fork() == 0) {
                close(fds[0]);
                for (;;) pause();
            }
        _exit(5);
    }
    close(fds[1]);
    // The writing ends go only when all of the namespace are dead.
    CHECK(read(fds[0], &byte, 1) == 0);
    int status = wait_for(pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
    // A namespace without its first takes nobody.
    FAILS(ENOMEM, fork());
}

static void orphans_go_to_its_first(void) {
    enter(CLONE_NEWPID);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        if (fork() == 0) {
            if (fork() == 0) {
                while (getppid() != 1) usleep(1000);
                _exit(7);
            }
            _exit(3);
        }
        int status, sum = 0;
        while (wait(&status) > 0) sum += WEXITSTATUS(status);
        _exit(sum == 10 ? 0 : 1);
    }
    CHECK_CHILD(pid);
}

static void signals_of_its_first(void) {
    enter(CLONE_NEWPID);
    int go[2];
    CHECK(pipe(go) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        // Signals without a handler do nothing to the first, if they come from within.
        CHECK(kill(getpid(), SIGTERM) == 0 && kill(getpid(), SIGKILL) == 0);
        CHECK(write(go[1], "s", 1) == 1);
        for (;;) pause();
    }
    char byte;
    CHECK(read(go[0], &byte, 1) == 1 && kill(pid, SIGKILL) == 0);
    int status = wait_for(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void host_names(void) {
    char name[70];
    enter(CLONE_NEWUTS);
    CHECK(sethostname("wild-host", 9) == 0 && gethostname(name, sizeof name) == 0 && strcmp(name, "wild-host") == 0);
    CHECK(setdomainname("wild-domain", 11) == 0);
    FAILS(EINVAL, sethostname(everything_printed, 100));
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(unshare(CLONE_NEWUTS) == 0 && sethostname("inner", 5) == 0);
        _exit(0);
    }
    CHECK_CHILD(pid);
    CHECK(gethostname(name, sizeof name) == 0 && strcmp(name, "wild-host") == 0);
}

static void empty_network(void) {
    enter(CLONE_NEWNET);
    struct if_nameindex *all = if_nameindex();
    int found = 0;
    for (struct if_nameindex *i = all; i && i->if_name; i++) found += strcmp(i->if_name, "lo") == 0 ? 1 : 0;
    CHECK(found == 1);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq request = {.ifr_name = "lo"};
    CHECK(ioctl(fd, SIOCGIFFLAGS, &request) == 0 && !(request.ifr_flags & IFF_UP));
    request.ifr_flags |= IFF_UP;
    CHECK(ioctl(fd, SIOCSIFFLAGS, &request) == 0);
    CHECK(ioctl(fd, SIOCGIFFLAGS, &request) == 0 && request.ifr_flags & IFF_UP);
}

static void joined_again(void) {
    char before[60] = "", inside[60] = "", after[60] = "";
    enter(0);
    int old = open("/proc/self/ns/uts", O_RDONLY);
    CHECK(old >= 0 && readlink("/proc/self/ns/uts", before, 59) > 0);
    CHECK(unshare(CLONE_NEWUTS) == 0 && readlink("/proc/self/ns/uts", inside, 59) > 0 && strcmp(before, inside) != 0);
    CHECK(sethostname("other", 5) == 0);
    if (setns(old, CLONE_NEWUTS) == 0)
        CHECK(readlink("/proc/self/ns/uts", after, 59) > 0 && strcmp(before, after) == 0);
    FAILS(EINVAL, setns(old, CLONE_NEWNET));
    FAILS(EBADF, setns(99, 0));
}

static void own_proc(void) {
    enter(CLONE_NEWPID | CLONE_NEWNS);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        char text[30] = "";
        CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && mount("proc", "/proc", "proc", 0, NULL) == 0);
        CHECK(readlink("/proc/self", text, sizeof text) == 1 && text[0] == '1');
        CHECK(access("/proc/1/status", R_OK) == 0 && access("/proc/2", F_OK) != 0);
        _exit(0);
    }
    CHECK_CHILD(pid);
}

static void nested(void) {
    enter(0);
    for (int i = 0; i < 3; i++) {
        CHECK(unshare(CLONE_NEWUSER) == 0);
        put("/proc/self/setgroups", "deny");
        put("/proc/self/uid_map", "0 0 1");
        put("/proc/self/gid_map", "0 0 1");
    }
    CHECK(unshare(CLONE_NEWPID | CLONE_NEWIPC) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(getpid() == 1 && geteuid() == 0 && unshare(CLONE_NEWPID) == 0);
        pid_t inner = fork();
        CHECK(inner == 2 || inner == 0);
        if (inner == 0) _exit(getpid() == 1 ? 0 : 1);
        CHECK_CHILD(inner);
        execl("/bin/sh", "sh", "-c", "echo from $$ > pid; exit 4", (char *)NULL);
        _exit(1);
    }
    int status = wait_for(pid);
    CHECK(WEXITSTATUS(status) == 4);
    must_hold("pid", "from 1\n");
}

CASES(
    {.name = "user_ids", .function = user_ids, .needs = "userns"},
    {.name = "first_of_its_pids", .function = first_of_its_pids, .needs = "userns"},
    {.name = "ends_with_its_first", .function = ends_with_its_first, .needs = "userns"},
    {.name = "orphans_go_to_its_first", .function = orphans_go_to_its_first, .needs = "userns"},
    {.name = "signals_of_its_first", .function = signals_of_its_first, .needs = "userns"},
    {.name = "host_names", .function = host_names, .needs = "userns"},
    {.name = "empty_network", .function = empty_network, .needs = "userns"},
    {.name = "joined_again", .function = joined_again, .needs = "userns"},
    {.name = "own_proc", .function = own_proc, .needs = "userns"},
    {.name = "nested", .function = nested, .needs = "userns"}, )
