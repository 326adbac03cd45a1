// flags: -pthread
// count: off
//
// Files that are there are changed in every way that begins with a path. `SEED prepare` makes the
// files, `SEED change` changes them; without a word both is done. What is recorded must not show:
// not in descriptor numbers, in children, in locks, or in signals.
#include "expect.h"
#include <linux/openat2.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/time.h>

#define BIG ((5 << 20) + 123)
#define CHILDREN 20
#define MOST 64

static const struct {
    const char *name;
    size_t size;
} FILES[] = {
    {"over", 300000},  {"log", 5000},     {"cut", 7000},     {"emptied", 6000},  {"emptied-read", 6001},
    {"shrunk", 9000},  {"mapped", 20000}, {"created", 4096}, {"how", 4097},      {"target", 4098},
    {"sub/in", 4099},  {"big", BIG},      {"both", 3000},    {"renamed", 2500},  {"locked", 1000},
    {"nothing", 0},
};

static char bytes[BIG];

static void write_at(const char *name, int flags, off_t at, size_t len) {
    int fd = open(name, flags);
    CHECK(fd == 3);
    CHECK(at < 0 ? write(fd, bytes, len) == (ssize_t)len : pwrite(fd, bytes, len, at) == (ssize_t)len);
    CHECK(close(fd) == 0);
}

static void prepare(void) {
    CHECK(mkdir("sub", 0755) == 0);
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        fill(bytes, FILES[i].size);
        int fd = open(FILES[i].name, O_WRONLY | O_CREAT | O_EXCL, 0644);
        CHECK(fd >= 0 && write(fd, bytes, FILES[i].size) == (ssize_t)FILES[i].size);
        CHECK(close(fd) == 0);
    }
    CHECK(symlink("target", "link") == 0);
    int fd = open("sparse", O_WRONLY | O_CREAT | O_EXCL, 0644);
    CHECK(fd >= 0 && pwrite(fd, bytes, 10, 1500000) == 10 && ftruncate(fd, 3000000) == 0);
    CHECK(close(fd) == 0);
}

static void on_alarm(int signal) { (void)signal; }

static bool was_open[MOST];

static bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

// Children must find no descriptors but those that the other thread may have just opened: 3 and 4.
static void *make_children(void *nothing) {
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            for (int fd = 5; fd < MOST; fd++)
                if (is_open(fd) != was_open[fd])
                    _exit(1);
            _exit(0);
        }
        CHECK_CHILD(child);
    }
    return nothing;
}

// A lock that is held stays when the file is opened to be written.
static void keep_lock(void) {
    int reader = open("locked", O_RDONLY);
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    CHECK(reader == 3 && fcntl(reader, F_SETLK, &lock) == 0);
    int writer = open("locked", O_RDWR);
    CHECK(writer == 4 && pwrite(writer, bytes, 1, 0) == 1);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct flock asked = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        CHECK(fcntl(4, F_GETLK, &asked) == 0);
        _exit(asked.l_type == F_RDLCK ? 0 : 1);
    }
    CHECK_CHILD(child);
    CHECK(close(writer) == 0 && close(reader) == 0);
}

static void change(void) {
    for (int fd = 0; fd < MOST; fd++)
        was_open[fd] = is_open(fd);
    char target[16];
    CHECK(readlink("link", target, sizeof target) == 6);
    fill(bytes, sizeof bytes);
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, make_children, NULL) == 0);

    write_at("big", O_WRONLY, 2000000, 10);
    write_at("over", O_RDWR, 1000, 5000);
    write_at("log", O_WRONLY | O_APPEND, -1, 300);
    CHECK(truncate("cut", 100) == 0);
    write_at("emptied", O_WRONLY | O_TRUNC, -1, 10);
    int fd = open("emptied-read", O_RDONLY | O_TRUNC);
    CHECK(fd == 3 && close(fd) == 0);
    CHECK((fd = open("shrunk", O_RDWR)) == 3 && ftruncate(fd, 10) == 0 && close(fd) == 0);
    CHECK((fd = open("mapped", O_RDWR)) == 3);
    char *mapped = mmap(NULL, 20000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(mapped != MAP_FAILED && close(fd) == 0);
    memcpy(mapped + 5000, bytes, 5000);
    CHECK(munmap(mapped, 20000) == 0);
    CHECK((fd = creat("created", 0600)) == 3 && write(fd, bytes, 5) == 5 && close(fd) == 0);
    struct open_how how = {.flags = O_RDWR, .resolve = RESOLVE_BENEATH};
    CHECK((fd = syscall(SYS_openat2, AT_FDCWD, "how", &how, sizeof how)) == 3);
    CHECK(write(fd, bytes, 50) == 50 && close(fd) == 0);
    write_at("link", O_RDWR | O_CREAT, 10, 20);
    CHECK(open("link", O_RDWR | O_NOFOLLOW) == -1 && errno == ELOOP);
    int directory = open("sub", O_RDONLY | O_DIRECTORY);
    CHECK(directory == 3 && (fd = openat(directory, "in", O_RDWR)) == 4);
    CHECK(pwrite(fd, bytes, 7, 3) == 7 && close(fd) == 0 && close(directory) == 0);
    write_at("renamed", O_RDWR, 100, 100);
    CHECK(rename("renamed", "moved") == 0);
    write_at("moved", O_RDWR, 0, 100);
    write_at("sparse", O_RDWR, 2000000, 100);
    write_at("nothing", O_RDWR, 0, 100);

    CHECK(pthread_join(thread, NULL) == 0);
    keep_lock();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        write_at("both", O_RDWR, 0, 1000);
        _exit(0);
    }
    CHECK_CHILD(child);
    write_at("both", O_RDWR, 1500, 1000);
    CHECK((fd = open("new", O_RDWR | O_CREAT | O_EXCL, 0600)) == 3 && close(fd) == 0);
    write_at("new", O_RDWR, 0, 1000);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    const char *what = argc > 2 ? argv[2] : "";
    if (strcmp(what, "change"))
        prepare();
    if (strcmp(what, "prepare"))
        change();
    return 0;
}
