// count: off
// Files and pipes opened again by the links that a process has to its own descriptors.
#include "expect.h"

static void again(const char *link, const char *text) {
    int fd = open(link, O_WRONLY | O_APPEND);
    CHECK(fd >= 0);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    EXPECT("write", (long)strlen(text), DATA(text, strlen(text)));
    CHECK(close(fd) == 0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    char link[64], back[64] = "";
    int file = open("file", O_CREAT | O_RDWR, 0600);
    CHECK(file >= 0);
    for (int way = 0; way < 4; way++) {
        const char *forms[] = {"/dev/fd/%d", "/proc/self/fd/%d", "/proc/thread-self/fd/%d", "/proc/%d/fd/%d"};
        if (way == 3)
            snprintf(link, sizeof link, forms[way], (int)getpid(), file);
        else
            snprintf(link, sizeof link, forms[way], file);
        again(link, "line\n");
    }
    snprintf(link, sizeof link, "/proc/self/task/%d/fd/%d", (int)gettid(), file);
    again(link, "last\n");
    CHECK(pread(file, back, sizeof back, 0) == 25);
    EXPECT("pread64", 25, DATA(back, 25));

    // More than a pipe holds, so that somebody has to read it.
    enum { PART = 4096, PARTS = 64 };
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    static char part[PART];
    if (pid == 0) {
        close(ends[0]);
        for (int i = 0; i < PARTS; i++) CHECK(write(ends[1], part, PART) == PART);
        _exit(0);
    }
    CHECK(close(ends[1]) == 0);
    snprintf(link, sizeof link, "/dev/fd/%d", ends[0]);
    int other = open(link, O_RDONLY);
    CHECK(other >= 0 && close(ends[0]) == 0);
    long sum = 0, got;
    while ((got = read(other, part, PART)) > 0) sum += got;
    CHECK(sum == PARTS * PART);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    return 0;
}
