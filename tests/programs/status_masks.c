// The masks in /proc/self/status are those that the program has set, in whatever pieces it reads
// them, of whichever of its threads, also for the signals that a recorder needs itself.
// flags: -pthread
// count: off
#include "expect.h"
#include <pthread.h>
#include <sys/uio.h>

enum { ROOM = 16384 };

struct masks {
    unsigned long long pending, shared, blocked, ignored, caught;
};

static struct masks parse(const char *text) {
    struct masks masks;
    const char *at = strstr(text, "\nSigPnd:\t");
    CHECK(at);
    int found = sscanf(at, "\nSigPnd:\t%16llx\nShdPnd:\t%16llx\nSigBlk:\t%16llx\nSigIgn:\t%16llx\nSigCgt:\t%16llx\n",
                       &masks.pending, &masks.shared, &masks.blocked, &masks.ignored, &masks.caught);
    CHECK(found == 5);
    return masks;
}

// Reads with pieces of that many bytes.
static struct masks by_pieces(const char *path, size_t piece) {
    static char text[ROOM];
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    size_t len = 0;
    for (ssize_t n; (n = read(fd, text + len, piece)) != 0; len += n) CHECK(n > 0 && len + n < ROOM);
    text[len] = 0;
    CHECK(close(fd) == 0);
    return parse(text);
}

// Whether a text that was read in pieces is that of one time: what other processes of the user do moves it
// (SigQ), and each piece that is sought is made anew.
static int is_of_one_time(int fd, const char *text) {
    static char now[ROOM];
    ssize_t len = pread(fd, now, sizeof now - 1, 0);
    CHECK(len > 0);
    now[len] = 0;
    const char *end = strstr(now, "\nCapInh:");
    CHECK(end);
    return strncmp(text, now, end + 1 - now) == 0;
}

// Backwards, by offsets.
static struct masks by_offsets(const char *path) {
    static char text[ROOM];
    int fd = open(path, O_RDONLY);
    do {
        ssize_t len = pread(fd, text, sizeof text, 0);
        CHECK(len > 0);
        for (ssize_t at = len / 100 * 100; at >= 0; at -= 100) CHECK(pread(fd, text + at, 100, at) > 0);
        text[len] = 0;
    } while (!is_of_one_time(fd, text));
    CHECK(close(fd) == 0);
    return parse(text);
}

// Line by line, going back to the end of the line each time, as shells do.
static struct masks by_lines(const char *path) {
    static char text[ROOM];
    int fd = open(path, O_RDONLY);
    do {
        size_t len = 0;
        CHECK(lseek(fd, 0, SEEK_SET) == 0);
        for (ssize_t n; (n = read(fd, text + len, 128)) != 0;) {
            CHECK(n > 0);
            const char *end = memchr(text + len, '\n', n);
            ssize_t used = end ? end + 1 - (text + len) : n;
            if (used < n) CHECK(lseek(fd, used - n, SEEK_CUR) >= 0);
            len += used;
        }
        text[len] = 0;
    } while (!is_of_one_time(fd, text));
    CHECK(close(fd) == 0);
    return parse(text);
}

static struct masks by_vector(const char *path) {
    static char text[ROOM];
    struct iovec parts[3] = {{text, 3}, {text + 3, 700}, {text + 703, ROOM - 704}};
    int fd = open(path, O_RDONLY);
    ssize_t len = readv(fd, parts, 3);
    CHECK(len > 0);
    text[len] = 0;
    CHECK(close(fd) == 0);
    return parse(text);
}

#define BIT(signal) (1ull << ((signal)-1))
#define OF_LIBRARY (3ull << 31)

static void must_be(const char *path, unsigned long long blocked, unsigned long long ignored, unsigned long long caught) {
    struct masks all[] = {by_pieces(path, ROOM), by_pieces(path, 1024), by_pieces(path, 7), by_pieces(path, 1),
                          by_offsets(path),      by_lines(path),        by_vector(path)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK(all[i].blocked == blocked);
        CHECK((all[i].ignored & ~(BIT(SIGPIPE) | OF_LIBRARY)) == ignored);
        CHECK((all[i].caught & ~OF_LIBRARY) == caught);
        CHECK(all[i].pending == 0);
    }
}

static void handler(int signal) { (void)signal; }

static pthread_barrier_t barrier;
static pid_t thread_id;

static void *waits(void *unused) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSYS);
    sigaddset(&set, SIGUSR2);
    CHECK(pthread_sigmask(SIG_SETMASK, &set, NULL) == 0);
    thread_id = syscall(SYS_gettid);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    const char *path = "/proc/self/status";
    must_be(path, 0, 0, 0);
    CHECK(signal(SIGUSR1, handler) != SIG_ERR && signal(SIGSEGV, handler) != SIG_ERR);
    CHECK(signal(SIGBUS, SIG_IGN) != SIG_ERR && signal(SIGHUP, SIG_IGN) != SIG_ERR);
    must_be(path, 0, BIT(SIGBUS) | BIT(SIGHUP), BIT(SIGUSR1) | BIT(SIGSEGV));
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSYS);
    sigaddset(&set, SIGTERM);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    CHECK(signal(SIGSYS, handler) != SIG_ERR && signal(SIGSEGV, SIG_DFL) != SIG_ERR);
    unsigned long long blocked = BIT(SIGSYS) | BIT(SIGTERM), ignored = BIT(SIGBUS) | BIT(SIGHUP);
    unsigned long long caught = BIT(SIGUSR1) | BIT(SIGSYS);
    must_be(path, blocked, ignored, caught);
    must_be("/proc/thread-self/status", blocked, ignored, caught);

    // One that is pending, for the thread and for the process.
    CHECK(raise(SIGSYS) == 0);
    struct masks masks = by_pieces(path, ROOM);
    CHECK(masks.pending == BIT(SIGSYS) && masks.shared == 0);
    CHECK(sigpending(&set) == 0 && sigismember(&set, SIGSYS));
    sigemptyset(&set);
    sigaddset(&set, SIGSYS);
    CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);

    // Another thread's.
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    CHECK(pthread_create(&thread, NULL, waits, NULL) == 0);
    pthread_barrier_wait(&barrier);
    char other[100];
    snprintf(other, sizeof other, "/proc/self/task/%d/status", thread_id);
    must_be(other, BIT(SIGSYS) | BIT(SIGUSR2), ignored, caught);
    must_be(path, blocked, ignored, caught);
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(thread, NULL) == 0);

    // What an image inherits, and what a child is told of it through an open descriptor.
    CHECK(signal(SIGSYS, SIG_IGN) != SIG_ERR);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c",
              "exec < /proc/self/status; while read line; do case $line in Sig[BC]*) echo $line;; esac; done;"
              "sed -n /Sig[BC]/p /proc/self/status; sed -n /Sig/p /proc/self/status | wc -l",
              NULL);
        _exit(1);
    }
    CHECK_CHILD(pid);
    return 0;
}
