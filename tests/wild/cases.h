// What every behaviour program uses: a table of cases, each of which checks itself.
//
// A program is run as `PROGRAM CASE` in an empty directory, and exits with 0 if all held.
// `PROGRAM --list` says which cases there are and what is special about each, so that no list
// elsewhere names them.
#pragma once
#include "../programs/expect.h"
#include <sys/mman.h>

// One case. What is not given is not special.
struct wild_case {
    const char *name;
    void (*function)(void);
    // Words of: root, user, userns, xattr. Skipped without; `user`: only as an ordinary user.
    const char *needs;
    // Gaps that its trace may have, as `reenact show --json` names them, with blanks between.
    const char *gaps;
    // What a replay may find otherwise, by a limit that is stated: causes as `reenact replay --json`
    // names them, with `; ` between.
    const char *otherwise;
    // A defect that shows here, as `replay: reason` (recorded right, replayed otherwise) or
    // `record: reason`; `replay root: reason` if only root's runs show it, `replay user: ...`;
    // `replay sometimes: reason` if not every run shows it.
    const char *known;
    // How it shows: the first mismatch of the replay, or what is said of the recording; others, of which
    // each may be the one, with `; ` between. What shows otherwise is not what is known.
    const char *shows;
};

__attribute__((unused)) static const char *or_nothing(const char *text) { return text ? text : ""; }

static int cases_main(int argc, char **argv, const struct wild_case *cases, size_t count) {
    CHECK(argc == 2);
    if (strcmp(argv[1], "--list") == 0) {
        for (const struct wild_case *c = cases; c < cases + count; c++)
            printf("%s\t%s\t%s\t%s\t%s\t%s\n", c->name, or_nothing(c->needs), or_nothing(c->gaps),
                   or_nothing(c->otherwise), or_nothing(c->known), or_nothing(c->shows));
        return 0;
    }
    setvbuf(stdout, everything_printed, _IOFBF, sizeof everything_printed);
    // A case that hangs ends, alone as well.
    alarm(100);
    for (const struct wild_case *c = cases; c < cases + count; c++) {
        if (strcmp(c->name, argv[1]) != 0) continue;
        c->function();
        printf("%s held\n", c->name);
        return 0;
    }
    fprintf(stderr, "no case is named %s\n", argv[1]);
    return 2;
}

// The end of every file: its table of cases.
#define CASES(...)                                                                       \
    int main(int argc, char **argv) {                                                    \
        static const struct wild_case cases[] = {__VA_ARGS__};                           \
        return cases_main(argc, argv, cases, sizeof cases / sizeof *cases);              \
    }

// Runs a function in a child, which must end well.
__attribute__((unused)) static void in_child(void (*function)(void)) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        function();
        _exit(0);
    }
    CHECK_CHILD(pid);
}

// The call must fail with just this error.
#define FAILS(error, call)                                                               \
    do {                                                                                 \
        errno = 0;                                                                       \
        CHECK((long)(call) == -1);                                                       \
        CHECK(errno == (error));                                                         \
    } while (0)

// A new file that holds a text, open for both.
__attribute__((unused)) static int new_file(const char *name, const char *text) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    return fd;
}

__attribute__((unused)) static void must_hold(const char *name, const char *text) {
    char found[4096];
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    ssize_t len = read(fd, found, sizeof found);
    CHECK(len == (ssize_t)strlen(text) && memcmp(found, text, (size_t)len) == 0);
    close(fd);
}

// Writes a whole short text to a path that exists.
__attribute__((unused)) static void put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}
