// The calls by which a service manager confines what it starts: no new privileges, memory that is
// not both writable and executable, a private user and mount namespace with a read-only system,
// and a filter for each of its settings, stacked, all inherited by the program that is executed.
// needs: userns
// gaps: not-followed
// count: off
#include "expect.h"
#include "filter.h"
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define LOW(n) (offsetof(struct seccomp_data, args) + 8 * (n))
#define LOAD_ARG(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, LOW(n))
#define IF_ANY(bits, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, yes, no)
#define ERROR(e) RETURN(SECCOMP_RET_ERRNO | (e))

#define NAMESPACES (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
                    CLONE_NEWPID | CLONE_NEWNET)

static void write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

static void private_users(void) {
    char map[64];
    int uid = (int)geteuid(), gid = (int)getegid();
    CHECK(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0);
    write_file("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "%d %d 1", uid, uid);
    write_file("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "%d %d 1", gid, gid);
    write_file("/proc/self/gid_map", map);
}

static void protect_system(void) {
    CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    CHECK(mount("/usr", "/usr", NULL, MS_BIND | MS_REC, NULL) == 0);
    CHECK(mount(NULL, "/usr", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) == 0 ||
          mount(NULL, "/usr", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) == 0);
    CHECK(mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0);
    CHECK(open("/usr/a-new-file", O_WRONLY | O_CREAT, 0600) == -1);
}

static void restrict_namespaces(void) {
    INSTALL(IF(SYS_unshare, 2, 0), IF(SYS_clone, 1, 0), RETURN(SECCOMP_RET_ALLOW),
            LOAD_ARG(0), IF_ANY(NAMESPACES, 0, 1), ERROR(EPERM), RETURN(SECCOMP_RET_ALLOW));
    INSTALL(ANSWER(SYS_setns, SECCOMP_RET_ERRNO | EPERM),
            ANSWER(SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS), RETURN(SECCOMP_RET_ALLOW));
}
static void lock_personality(void) {
    INSTALL(IF(SYS_personality, 1, 0), RETURN(SECCOMP_RET_ALLOW), LOAD_ARG(0),
            IF(0, 0, 1), RETURN(SECCOMP_RET_ALLOW), IF(0xffffffff, 0, 1), RETURN(SECCOMP_RET_ALLOW),
            ERROR(EPERM));
}
static void restrict_realtime(void) {
    INSTALL(IF(SYS_sched_setscheduler, 1, 0), RETURN(SECCOMP_RET_ALLOW), LOAD_ARG(1),
            IF(SCHED_FIFO, 1, 0), IF(SCHED_RR, 0, 1), ERROR(EPERM), RETURN(SECCOMP_RET_ALLOW));
}
static void restrict_families(void) {
    INSTALL(IF(SYS_socket, 1, 0), RETURN(SECCOMP_RET_ALLOW), LOAD_ARG(0), IF(AF_UNIX, 1, 0),
            ERROR(EAFNOSUPPORT), RETURN(SECCOMP_RET_ALLOW));
}
static void restrict_set_ids(void) {
    INSTALL(IF(SYS_fchmodat, 3, 0), IF(SYS_fchmod, 1, 0), RETURN(SECCOMP_RET_ALLOW),
            LOAD_ARG(1), IF_ANY(0, 1, 1), LOAD_ARG(2), IF_ANY(06000, 0, 1), ERROR(EPERM),
            RETURN(SECCOMP_RET_ALLOW));
}
// What no service needs, as a list of what is refused.
static void deny_list(void) {
    INSTALL(ANSWER(SYS_ptrace, SECCOMP_RET_ERRNO | EPERM), ANSWER(SYS_kexec_load, SECCOMP_RET_ERRNO | EPERM),
            ANSWER(SYS_init_module, SECCOMP_RET_ERRNO | EPERM), ANSWER(SYS_reboot, SECCOMP_RET_ERRNO | EPERM),
            ANSWER(SYS_swapon, SECCOMP_RET_ERRNO | EPERM), ANSWER(SYS_keyctl, SECCOMP_RET_ERRNO | EPERM),
            ANSWER(SYS_acct, SECCOMP_RET_ERRNO | EPERM), ANSWER(SYS_bpf, SECCOMP_RET_ERRNO | EPERM),
            RETURN(SECCOMP_RET_ALLOW));
}
// What a service needs, as a list of what is let through; none of what a recorder wants besides.
static void allow_list(void) {
    INSTALL(ANSWER(SYS_shmat, SECCOMP_RET_ERRNO | EPERM), ANSWER(SYS_shmget, SECCOMP_RET_ERRNO | EPERM),
            ANSWER(SYS_process_vm_readv, SECCOMP_RET_ERRNO | EPERM), RETURN(SECCOMP_RET_ALLOW));
}

static void be_confined(void) {
    CHECK(unshare(CLONE_NEWUTS) == -1 && errno == EPERM && setns(0, 0) == -1 && errno == EPERM);
    CHECK(syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0) == -1 && errno == EPERM);
    CHECK(syscall(SYS_clone3, NULL, 0) == -1 && errno == ENOSYS);
    CHECK(personality(0xffffffff) == 0 && personality(PER_BSD) == -1 && errno == EPERM);
    struct sched_param param = {.sched_priority = 1};
    CHECK(sched_setscheduler(0, SCHED_FIFO, &param) == -1 && errno == EPERM);
    CHECK(socket(AF_INET, SOCK_STREAM, 0) == -1 && errno == EAFNOSUPPORT);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(fd >= 0 && close(fd) == 0);
    CHECK(syscall(SYS_bpf, 0, NULL, 0) == -1 && errno == EPERM);
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && mprotect(page, 4096, PROT_READ | PROT_EXEC) == -1 && errno == EACCES);
    for (int i = 0; i < 20; i++) CHECK(syscall(SYS_getpgid, 0) >= 0);
}

static void run_service(const char *self, const char *seed) {
    pid_t pid = fork();
    if (pid == 0) {
        execl(self, self, seed, "service", NULL);
        _exit(1);
    }
    CHECK_CHILD(pid);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    if (argc > 2) {
        // Says nothing: the second one is not recorded, and no replay would hear of it.
        be_confined();
        return 0;
    }
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(len > 0);
    int program = open("/proc/self/exe", O_RDONLY);
    snprintf(self, sizeof self, "/proc/self/fd/%d", program);
    private_users();
    protect_system();
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    static void (*const settings[])(void) = {restrict_namespaces, lock_personality,
        restrict_realtime, restrict_families, restrict_set_ids, deny_list};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) settings[i]();
    EXPECT_COUNT("seccomp", 8);
#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif
    CHECK(prctl(PR_SET_MDWE, 1, 0, 0, 0) == 0 || errno == EINVAL);
    fflush(stdout);
    run_service(self, argv[1]);
    allow_list();
    be_confined();
    run_service(self, argv[1]);
    return 0;
}
