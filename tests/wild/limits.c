// Limits: of descriptors, sizes, processes, memory, time, and what happens at each.
#include "cases.h"
#include <sys/resource.h>
#include <sys/sysinfo.h>

static struct rlimit set(int what, rlim_t soft, rlim_t hard) {
    struct rlimit old;
    CHECK(getrlimit((__rlimit_resource_t)what, &old) == 0);
    CHECK(setrlimit((__rlimit_resource_t)what, &(struct rlimit){soft, hard}) == 0);
    return old;
}

static void descriptors(void) {
    set(RLIMIT_NOFILE, 20, 20);
    int fd, count = 0;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0) count++;
    CHECK(errno == EMFILE && count >= 10 && count <= 17);
    FAILS(EMFILE, dup(0));
    FAILS(EINVAL, fcntl(0, F_DUPFD, 20));
    FAILS(EBADF, dup2(0, 20));
    int fds[2];
    FAILS(EMFILE, pipe(fds));
    close(19);
    FAILS(EMFILE, pipe(fds));
    CHECK(dup(0) == 19);
}

static void size_of_files(void) {
    signal(SIGXFSZ, SIG_IGN);
    set(RLIMIT_FSIZE, 1000, RLIM_INFINITY);
    static char text[2000];
    int fd = new_file("file", "");
    CHECK(write(fd, text, 600) == 600 && write(fd, text, 600) == 400);
    FAILS(EFBIG, write(fd, text, 1));
    FAILS(EFBIG, ftruncate(fd, 1001));
    FAILS(EFBIG, fallocate(fd, 0, 0, 2000));
    CHECK(ftruncate(fd, 1000) == 0);
    signal(SIGXFSZ, SIG_DFL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) _exit(pwrite(fd, text, 1, 1000) == 1);
    int status = wait_for(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
}

static void memory(void) {
    set(RLIMIT_AS, 600 << 20, 600 << 20);
    void *got = mmap(NULL, 700 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(got == MAP_FAILED && errno == ENOMEM);
    got = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(got != MAP_FAILED);
    CHECK(mremap(got, 1 << 20, 700 << 20, MREMAP_MAYMOVE) == MAP_FAILED && errno == ENOMEM);
    in_child(descriptors);
}

static void locked_memory(void) {
    set(RLIMIT_MEMLOCK, 16384, 16384);
    char *pages = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mlock(pages, 4096) == 0);
    if (geteuid() != 0) FAILS(ENOMEM, mlock(pages, 1 << 20));
    CHECK(munlock(pages, 4096) == 0);
    FAILS(ENOMEM, mlock((void *)4096, 4096));
}

static void processes(void) {
    set(RLIMIT_NPROC, 0, 0);
    FAILS(EAGAIN, fork());
}

static void raised_and_lowered(void) {
    struct rlimit old, now;
    CHECK(getrlimit(RLIMIT_CORE, &old) == 0 && old.rlim_cur <= old.rlim_max);
    set(RLIMIT_NOFILE, 64, 128);
    CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){128, 128}) == 0);
    FAILS(EINVAL, setrlimit(RLIMIT_NOFILE, &(struct rlimit){129, 128}));
    int raised = setrlimit(RLIMIT_NOFILE, &(struct rlimit){200, 200});
    // Root may, unless it lacks the capability, as in containers.
    CHECK((raised == 0 && geteuid() == 0) || errno == EPERM);
    FAILS(EINVAL, getrlimit((__rlimit_resource_t)99, &now));
    FAILS(EFAULT, getrlimit(RLIMIT_NOFILE, (void *)8));
}

static void of_another_process(void) {
    int go[2];
    char byte;
    CHECK(pipe(go) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct rlimit mine;
        CHECK(read(go[0], &byte, 1) == 1 && getrlimit(RLIMIT_CPU, &mine) == 0 && mine.rlim_cur == 777);
        _exit(0);
    }
    struct rlimit old, to = {777, 1000};
    CHECK(prlimit(pid, RLIMIT_CPU, &to, &old) == 0 && old.rlim_cur == RLIM_INFINITY);
    CHECK(prlimit(pid, RLIMIT_CPU, NULL, &old) == 0 && old.rlim_cur == 777 && old.rlim_max == 1000);
    CHECK(write(go[1], "g", 1) == 1);
    CHECK_CHILD(pid);
    FAILS(ESRCH, prlimit(4100000, RLIMIT_CPU, NULL, &old));
}

static void processor_time(void) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        set(RLIMIT_CPU, 1, 3);
        for (volatile long i = 0;; i++) {}
    }
    int status = wait_for(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU);
}

static void passed_over_exec(void) {
    set(RLIMIT_NOFILE, 77, 99);
    set(RLIMIT_STACK, 4 << 20, 4 << 20);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", "ulimit -Sn > found; ulimit -Hn >> found; ulimit -s >> found", (char *)NULL);
        _exit(9);
    }
    CHECK_CHILD(pid);
    must_hold("found", "77\n99\n4096\n");
}

static void long_arguments(void) {
    char *argv[] = {"true", malloc(140000), NULL};
    CHECK(argv[1]);
    memset(argv[1], 'a', 139999);
    argv[1][139999] = 0;
    // One string may have 128 KiB.
    FAILS(E2BIG, execve("/bin/true", argv, (char *[]){NULL}));
    argv[1][131000] = 0;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        execve("/bin/true", argv, (char *[]){NULL});
        _exit(9);
    }
    CHECK_CHILD(pid);
    char name[300];
    memset(name, 'n', 299);
    name[256] = 0;
    FAILS(ENAMETOOLONG, open(name, O_RDONLY | O_CREAT, 0644));
    name[255] = 0;
    CHECK(open(name, O_RDONLY | O_CREAT, 0644) >= 0);
}

static void nice_values(void) {
    CHECK(getpriority(PRIO_PROCESS, 0) == 0 && setpriority(PRIO_PROCESS, 0, 7) == 0);
    errno = 0;
    CHECK(getpriority(PRIO_PROCESS, 0) == 7 && nice(3) == 10);
    if (geteuid() != 0) FAILS(EACCES, setpriority(PRIO_PROCESS, 0, 0));
    FAILS(ESRCH, getpriority(PRIO_PROCESS, 4100000));
    FAILS(EINVAL, getpriority(9, 0));
}

CASES(
    {.name = "descriptors", .function = descriptors},
    {.name = "size_of_files", .function = size_of_files},
    {.name = "memory", .function = memory},
    {.name = "locked_memory", .function = locked_memory},
    {.name = "processes", .function = processes, .needs = "user"},
    {.name = "raised_and_lowered", .function = raised_and_lowered},
    {.name = "of_another_process", .function = of_another_process},
    {.name = "processor_time", .function = processor_time},
    {.name = "passed_over_exec", .function = passed_over_exec},
    {.name = "long_arguments", .function = long_arguments},
    {.name = "nice_values", .function = nice_values}, )
