// Limits of memory: how much more may be mapped, grown, kept on the stack and locked is what the
// limits say, and what is refused leaves all as it was.
#include "expect.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>

enum { MIB = 1 << 20 };

static long in_status(const char *title) {
    char text[4096], *at;
    int fd = open("/proc/self/status", O_RDONLY);
    CHECK(fd >= 0);
    ssize_t len = read(fd, text, sizeof text - 1);
    CHECK(len > 0 && close(fd) == 0);
    text[len] = 0;
    CHECK((at = strstr(text, title)));
    return atol(at + strlen(title)) * 1024;
}

static rlim_t limit(int resource, rlim_t bytes) {
    struct rlimit before, after;
    CHECK(getrlimit(resource, &before) == 0);
    after = (struct rlimit){bytes, before.rlim_max};
    CHECK(setrlimit(resource, &after) == 0);
    CHECK(prlimit(0, resource, NULL, &after) == 0 && after.rlim_cur == bytes);
    return before.rlim_cur;
}

static void *map(size_t len, int flags) {
    return mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

// A child with the limits of its own.
static void in_child(const char *name, void (*check)(void)) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        check();
        _exit(0);
    }
    CHECK_CHILD(child);
    printf("%s holds\n", name);
}

static void address_space(void) {
    limit(RLIMIT_AS, in_status("VmSize:") + 16 * MIB);
    char *some = map(8 * MIB, 0);
    CHECK(some != MAP_FAILED);
    CHECK(map(16 * MIB, 0) == MAP_FAILED && errno == ENOMEM);
    CHECK(map(16 * MIB, MAP_NORESERVE) == MAP_FAILED && errno == ENOMEM);
    CHECK(mremap(some, 8 * MIB, 32 * MIB, MREMAP_MAYMOVE) == MAP_FAILED && errno == ENOMEM);
    CHECK(munmap(some, 8 * MIB) == 0 && map(8 * MIB, 0) != MAP_FAILED);
}

static void data(void) {
    limit(RLIMIT_DATA, in_status("VmData:") + 16 * MIB);
    char *brk_before = sbrk(0);
    CHECK(sbrk(64 * MIB) == (void *)-1 && errno == ENOMEM && sbrk(0) == brk_before);
    CHECK(map(8 * MIB, 0) != MAP_FAILED);
    CHECK(map(16 * MIB, 0) == MAP_FAILED && errno == ENOMEM);
    // What is only read, or shared, is no data.
    CHECK(mmap(NULL, 16 * MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    int shared = MAP_SHARED | MAP_ANONYMOUS;
    CHECK(mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, shared, -1, 0) != MAP_FAILED);
}

__attribute__((noinline)) static int deep(int levels) {
    volatile char page[4096];
    page[0] = page[4095] = 0;
    return levels == 0 ? 0 : deep(levels - 1) + page[levels % 2 * 4095];
}

static void stack(void) {
    limit(RLIMIT_STACK, MIB);
    CHECK(deep(100) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        limit(RLIMIT_CORE, 0);
        _exit(deep(100000));
    }
    int status = wait_for(child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void locked(void) {
    limit(RLIMIT_MEMLOCK, 64 << 10);
    char *some = map(MIB, 0);
    CHECK(mlock(some, 32 << 10) == 0 && in_status("VmLck:") == 32 << 10);
    CHECK(mlock2(some + (32 << 10), 32 << 10, MLOCK_ONFAULT) == 0);
    CHECK(in_status("VmLck:") == 64 << 10);
    // Once more the same costs nothing.
    CHECK(mlock(some, 64 << 10) == 0 && in_status("VmLck:") == 64 << 10);
    int may = geteuid() == 0;
    int ret = mlock(some, 65 << 10);
    CHECK(may ? ret == 0 : ret == -1 && errno == ENOMEM);
    void *more = map(4096, MAP_LOCKED);
    CHECK(may ? more != MAP_FAILED : more == MAP_FAILED && errno == EAGAIN);
    CHECK(munlock(some, MIB) == 0 && in_status("VmLck:") <= 4096);
    CHECK(map(4096, MAP_LOCKED) != MAP_FAILED);
}

static void locked_in_the_middle(void) {
    char *some = map(MIB, 0);
    CHECK(mlock(some, 64 << 10) == 0);
    CHECK(munmap(some + (16 << 10), 16 << 10) == 0 && in_status("VmLck:") == 48 << 10);
    CHECK(mlock(some, 64 << 10) == -1 && errno == ENOMEM);
    char *moved = mremap(some, 16 << 10, 32 << 10, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED && in_status("VmLck:") == 64 << 10);
    CHECK(mlock((void *)(-(long)4096 & ~4095L), 8192) == -1);
    CHECK(munlockall() == 0 && in_status("VmLck:") == 0);
}

static void protected(void) {
    char *some = map(8 * MIB, 0);
    limit(RLIMIT_DATA, in_status("VmData:"));
    CHECK(mprotect(some, 8 * MIB, PROT_READ) == 0);
    long before = in_status("VmData:");
    CHECK(mprotect(some, 4 * MIB, PROT_READ | PROT_WRITE) == 0);
    CHECK(in_status("VmData:") == before + 4 * MIB);
    CHECK(map(8 * MIB, 0) == MAP_FAILED && errno == ENOMEM);
}

static void kept_over_exec(void) {
    rlim_t room = in_status("VmSize:") + 512L * MIB;
    limit(RLIMIT_AS, room);
    char text[32];
    snprintf(text, sizeof text, "%lu", (unsigned long)room);
    execl("/proc/self/exe", "memory_limits", "1", text, NULL);
    _exit(1);
}

static void files(void) {
    limit(RLIMIT_FSIZE, MIB);
    signal(SIGXFSZ, SIG_IGN);
    int memory = memfd_create("limited", 0);
    CHECK(memory >= 0 && ftruncate(memory, MIB) == 0);
    CHECK(ftruncate(memory, MIB + 1) == -1 && errno == EFBIG);
    CHECK(pwrite(memory, "xy", 2, MIB - 1) == 1);
    CHECK(pwrite(memory, "xy", 2, MIB) == -1 && errno == EFBIG);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    if (argc > 2) {
        struct rlimit now;
        CHECK(getrlimit(RLIMIT_AS, &now) == 0 && now.rlim_cur == strtoul(argv[2], NULL, 10));
        CHECK(map(1024L * MIB, 0) == MAP_FAILED && errno == ENOMEM);
        return 0;
    }
    in_child("address space", address_space);
    in_child("data", data);
    in_child("stack", stack);
    in_child("locked", locked);
    in_child("locked in the middle", locked_in_the_middle);
    in_child("protected", protected);
    in_child("kept over exec", kept_over_exec);
    in_child("files", files);
    return 0;
}
