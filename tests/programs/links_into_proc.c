// Links of the program's own that lead into /proc: what is done to the links is done to names, and the
// names are other files' later.
#include "expect.h"

static void is_link(const char *name, const char *target) {
    char got[64];
    struct stat told;
    CHECK(lstat(name, &told) == 0 && S_ISLNK(told.st_mode));
    CHECK(readlink(name, got, sizeof got) == (ssize_t)strlen(target));
    CHECK(memcmp(got, target, strlen(target)) == 0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    const char *version = "/proc/version";
    char got[64];
    struct stat told;
    CHECK(symlink(version, "x") == 0);
    int held = open("x", O_RDONLY);
    CHECK(held >= 0 && read(held, got, 5) == 5 && memcmp(got, "Linux", 5) == 0);
    is_link("x", version);
    CHECK(stat("x", &told) == 0 && S_ISREG(told.st_mode) && access("x", R_OK) == 0);
    CHECK(rename("x", "y") == 0 && access("x", F_OK) == -1 && errno == ENOENT);
    is_link("y", version);
    int fd = open("y", O_RDONLY);
    CHECK(fd >= 0 && read(fd, got, 5) == 5 && close(fd) == 0);
    CHECK(link("y", "z") == 0 && unlink("y") == 0);
    is_link("z", version);
    CHECK(unlinkat(AT_FDCWD, "z", 0) == 0 && access("z", F_OK) == -1 && errno == ENOENT);
    // Both names are files' now, and who has the old one open still reads what it was.
    for (const char *name = "x"; name; name = *name == 'x' ? "y" : NULL) {
        fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        CHECK(fd >= 0 && write(fd, "a file", 6) == 6 && close(fd) == 0);
        fd = open(name, O_RDONLY);
        CHECK(fd >= 0 && read(fd, got, sizeof got) == 6 && memcmp(got, "a file", 6) == 0);
        CHECK(close(fd) == 0 && stat(name, &told) == 0 && told.st_size == 6);
    }
    CHECK(pread(held, got, 5, 0) == 5 && memcmp(got, "Linux", 5) == 0 && close(held) == 0);
    CHECK(unlink("y") == 0 && symlink(version, "left") == 0 && access("left", F_OK) == 0);
    return 0;
}
