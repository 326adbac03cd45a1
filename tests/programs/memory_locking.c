// Memory that is locked, all of it or what will come: within the limits that the program has alone,
// and nothing but its own.
// flags: -pthread
#include "expect.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { MUCH = 64 << 10 };

// Locked memory in KiB.
static long locked(void) {
    char text[4096], *at;
    int fd = open("/proc/self/status", O_RDONLY);
    CHECK(fd >= 0);
    ssize_t len = read(fd, text, sizeof text - 1);
    CHECK(len > 0 && close(fd) == 0);
    text[len] = 0;
    CHECK((at = strstr(text, "VmLck:")));
    return atol(at + 6);
}

static void limit(rlim_t bytes) {
    struct rlimit now;
    CHECK(getrlimit(RLIMIT_MEMLOCK, &now) == 0);
    now.rlim_cur = bytes;
    CHECK(setrlimit(RLIMIT_MEMLOCK, &now) == 0);
}

// Lives until somebody waits for its end.
static void *does_nothing(void *unused) {
    usleep(200000);
    return unused;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    if (argc > 2) {
        // Executed: locks are not inherited.
        CHECK(locked() == 0);
        void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(page != MAP_FAILED && locked() == 0);
        return 0;
    }
    CHECK(locked() == 0);
    CHECK(mlockall(0) == -1 && errno == EINVAL);
    CHECK(mlockall(MCL_ONFAULT) == -1 && errno == EINVAL);
    CHECK(mlockall(MCL_CURRENT | 8) == -1 && errno == EINVAL);
    EXPECT_ERRNO("mlockall", EINVAL);

    // What there is, when it is touched or at once.
    CHECK(mlockall(MCL_CURRENT | MCL_ONFAULT) == 0);
    long all = locked();
    CHECK(all > 1000 && all < MUCH);
    CHECK(mlockall(MCL_CURRENT) == 0);
    CHECK(locked() == all);
    EXPECT("mlockall", 0);
    CHECK(munlockall() == 0 && locked() == 0);

    // What will come.
    CHECK(mlockall(MCL_FUTURE) == 0 && locked() == 0);
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && locked() == 4);
    unsigned char there;
    CHECK(mincore(page, 4096, &there) == 0 && (there & 1));
    CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
    CHECK(locked() >= all && locked() < MUCH);

    // A thread costs its stack.
    pthread_attr_t small;
    pthread_t thread;
    CHECK(!pthread_attr_init(&small) && !pthread_attr_setstacksize(&small, 64 << 10));
    CHECK(!pthread_attr_setguardsize(&small, 0));
    long before = locked();
    CHECK(pthread_create(&thread, &small, does_nothing, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(locked() - before <= 1024);

    // Children begin without.
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(locked() == 0);
        page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(page != MAP_FAILED && locked() == 0);
        CHECK(mlock(page, 4096) == 0 && locked() == 4);
        execl(argv[0], argv[0], argv[1], "executed", NULL);
        _exit(1);
    }
    CHECK_CHILD(child);

    // No more of it, but what there is stays.
    CHECK(mlockall(MCL_CURRENT) == 0);
    before = locked();
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    CHECK(locked() == before);
    CHECK(munlockall() == 0 && locked() == 0);

    // As much as the limit allows; root may lock all.
    int may = geteuid() == 0;
    limit(64 << 10);
    int ret = mlockall(MCL_CURRENT);
    CHECK(may ? ret == 0 : ret == -1 && errno == ENOMEM);
    CHECK(may ? locked() < MUCH : locked() == 0);
    CHECK(munlockall() == 0 && locked() == 0);
    limit(0);
    ret = mlockall(MCL_CURRENT | MCL_FUTURE);
    CHECK(may ? ret == 0 : ret == -1 && errno == EPERM);
    CHECK(may ? locked() < MUCH : locked() == 0);
    CHECK(munlockall() == 0 && locked() == 0);
    return 0;
}
