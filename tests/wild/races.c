// Races: many at once on one file, name, descriptor or pipe, with an end that is always the same.
// flags: -pthread
#include "cases.h"
#include <pthread.h>
#include <sys/file.h>

enum { MANY = 6, ROUNDS = 60 };

static void children(void (*function)(int)) {
    pid_t pids[MANY];
    for (int i = 0; i < MANY; i++) {
        CHECK((pids[i] = fork()) >= 0);
        if (pids[i] == 0) {
            function(i);
            _exit(0);
        }
    }
    for (int i = 0; i < MANY; i++) CHECK_CHILD(pids[i]);
}

static void threads(void *(*function)(void *)) {
    pthread_t all[MANY];
    for (long i = 0; i < MANY; i++) CHECK(pthread_create(all + i, NULL, function, (void *)i) == 0);
    for (int i = 0; i < MANY; i++) CHECK(pthread_join(all[i], NULL) == 0);
}

static void append_lines(int i) {
    int fd = open("log", O_WRONLY | O_APPEND);
    char line[17];
    for (int round = 0; round < ROUNDS; round++) {
        snprintf(line, sizeof line, "%d wrote line %03d", i, round);
        line[15] = '\n';
        CHECK(write(fd, line, 16) == 16);
    }
}

static void appends(void) {
    close(new_file("log", ""));
    children(append_lines);
    static char text[MANY * ROUNDS * 16 + 1];
    int counts[MANY] = {0}, fd = open("log", O_RDONLY);
    CHECK(read(fd, text, sizeof text) == sizeof text - 1);
    for (char *line = text; *line; line += 16) {
        CHECK(line[15] == '\n' && line[0] >= '0' && line[0] < '0' + MANY);
        counts[line[0] - '0']++;
    }
    for (int i = 0; i < MANY; i++) CHECK(counts[i] == ROUNDS);
    CHECK(unlink("log") == 0);
}

static int winners_pipe[2];

static void make_same_name(int i) {
    (void)i;
    for (int round = 0; round < ROUNDS; round++) {
        char name[20];
        snprintf(name, sizeof name, "n%d", round);
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644);
        CHECK(fd >= 0 || errno == EEXIST);
        if (fd >= 0) CHECK(write(winners_pipe[1], "w", 1) == 1);
        if (fd >= 0) close(fd);
    }
}

static void one_makes_it(void) {
    int fds[2], wins = 0;
    char text[100];
    CHECK(pipe(fds) == 0);
    winners_pipe[1] = fds[1];
    children(make_same_name);
    close(fds[1]);
    for (ssize_t got; (got = read(fds[0], text, sizeof text)) > 0;) wins += (int)got;
    CHECK(wins == ROUNDS);
}

static void rename_over(int i) {
    char name[20];
    snprintf(name, sizeof name, "new%d", i);
    for (int round = 0; round < ROUNDS; round++) {
        close(new_file(name, "whole content"));
        CHECK(rename(name, "target") == 0);
        int fd = open("target", O_RDONLY);
        char text[20];
        CHECK(fd >= 0 && read(fd, text, 20) == 13);
        close(fd);
    }
}

static void renames(void) {
    close(new_file("target", "whole content"));
    children(rename_over);
    must_hold("target", "whole content");
}

static void count_locked(int i) {
    (void)i;
    int fd = open("counter", O_RDWR);
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t value;
        CHECK(flock(fd, LOCK_EX) == 0 && pread(fd, &value, 4, 0) == 4);
        value++;
        CHECK(pwrite(fd, &value, 4, 0) == 4 && flock(fd, LOCK_UN) == 0);
    }
}

static void counted_under_lock(void) {
    uint32_t value = 0;
    int fd = new_file("counter", "");
    CHECK(write(fd, &value, 4) == 4);
    children(count_locked);
    CHECK(pread(fd, &value, 4, 0) == 4 && value == MANY * ROUNDS);
}

static int shared_fd;

static void *take_blocks(void *unused) {
    char block[64];
    while (read(shared_fd, block, sizeof block) == sizeof block) {
        for (int i = 1; i < 64; i++) CHECK(block[i] == block[0]);
    }
    return unused;
}

static void shared_offset(void) {
    shared_fd = new_file("blocks", "");
    for (int i = 0; i < 200; i++) {
        char block[64];
        memset(block, i, sizeof block);
        CHECK(write(shared_fd, block, sizeof block) == sizeof block);
    }
    CHECK(lseek(shared_fd, 0, SEEK_SET) == 0);
    threads(take_blocks);
    CHECK(lseek(shared_fd, 0, SEEK_CUR) == 200 * 64);
}

static void *open_and_close(void *unused) {
    for (int round = 0; round < ROUNDS; round++) {
        int fd = open("file", O_RDONLY);
        char byte;
        CHECK(fd >= 0 && read(fd, &byte, 1) == 1 && byte == 'x' && close(fd) == 0);
    }
    return unused;
}

static void reused_descriptors(void) {
    close(new_file("file", "x"));
    threads(open_and_close);
    CHECK(open("file", O_RDONLY) == 3);
}

static int ring[2];

static void *pass_token(void *number) {
    char byte;
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(read(ring[0], &byte, 1) == 1);
        byte++;
        CHECK(write(ring[1], &byte, 1) == 1);
    }
    return number;
}

static void tokens(void) {
    char byte = 0;
    CHECK(pipe(ring) == 0 && write(ring[1], &byte, 1) == 1);
    threads(pass_token);
    CHECK(read(ring[0], &byte, 1) == 1 && (unsigned char)byte == (unsigned char)(MANY * ROUNDS));
}

static void make_and_remove(int i) {
    for (int round = 0; round < ROUNDS; round++) {
        int made = mkdir("dir", 0755);
        CHECK(made == 0 || errno == EEXIST);
        char name[20];
        snprintf(name, sizeof name, "dir/%d", i);
        int fd = open(name, O_WRONLY | O_CREAT, 0644);
        CHECK(fd >= 0 || errno == ENOENT);
        if (fd >= 0) {
            close(fd);
            CHECK(unlink(name) == 0);
        }
        CHECK(rmdir("dir") == 0 || errno == ENOENT || errno == ENOTEMPTY);
    }
}

static void directories_come_and_go(void) {
    children(make_and_remove);
    CHECK(rmdir("dir") == 0 || errno == ENOENT);
}

static void rename_or_unlink(int i) {
    char name[20], byte;
    snprintf(name, sizeof name, "new%d", i);
    for (int round = 0; round < ROUNDS; round++) {
        if (i % 2) {
            CHECK(unlink("one") == 0 || errno == ENOENT);
            continue;
        }
        close(new_file(name, name + 3));
        CHECK(rename(name, "one") == 0);
        int fd = open("one", O_RDONLY);
        CHECK(fd >= 0 || errno == ENOENT);
        if (fd >= 0) CHECK(read(fd, &byte, 1) == 1 && close(fd) == 0);
        CHECK(rename("one", name) == 0 || errno == ENOENT);
        CHECK(unlink(name) == 0 || errno == ENOENT);
    }
}

static void one_name(void) {
    children(rename_or_unlink);
    CHECK(unlink("one") == 0 || errno == ENOENT);
}

static void end_at_random(int i) {
    close(new_file(i % 2 ? "odd" : "even", "x"));
    if (i % 3 == 0) kill(getpid(), SIGKILL);
    if (i % 3 == 1) raise(SIGTERM);
    _exit(i);
}

static void deaths(void) {
    for (int round = 0; round < 10; round++) {
        pid_t pids[MANY];
        for (int i = 0; i < MANY; i++)
            if ((pids[i] = fork()) == 0) end_at_random(i);
        for (int i = 0; i < MANY; i++) {
            int status = wait_for(pids[i]);
            CHECK(i % 3 == 2 ? WEXITSTATUS(status) == i : WTERMSIG(status) == (i % 3 ? SIGTERM : SIGKILL));
        }
    }
}

static void *fork_and_wait(void *unused) {
    for (int round = 0; round < 8; round++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(9);
        }
        CHECK_CHILD(pid);
    }
    return unused;
}

static void forks_of_threads(void) { threads(fork_and_wait); }

CASES(
    {.name = "appends", .function = appends},
    {.name = "one_makes_it", .function = one_makes_it},
    {.name = "renames", .function = renames},
    {.name = "counted_under_lock", .function = counted_under_lock},
    {.name = "shared_offset", .function = shared_offset},
    {.name = "reused_descriptors", .function = reused_descriptors},
    {.name = "tokens", .function = tokens},
    {.name = "directories_come_and_go", .function = directories_come_and_go},
    {.name = "one_name", .function = one_name},
    {.name = "deaths", .function = deaths},
    {.name = "forks_of_threads", .function = forks_of_threads}, )
