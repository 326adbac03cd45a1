// Links, hard and symbolic: what paths lead to, what renames do, what stays when names go.
#include "cases.h"
#include <dirent.h>

static void loops(void) {
    CHECK(symlink("b", "a") == 0 && symlink("a", "b") == 0 && symlink("self", "self") == 0);
    FAILS(ELOOP, open("a", O_RDONLY));
    FAILS(ELOOP, open("self/x", O_RDONLY));
    struct stat stat;
    FAILS(ELOOP, fstatat(AT_FDCWD, "b", &stat, 0));
    CHECK(lstat("b", &stat) == 0 && S_ISLNK(stat.st_mode) && stat.st_size == 1);
    FAILS(ELOOP, chmod("a", 0600));
    CHECK(unlink("b") == 0);
    int fd = open("a", O_WRONLY | O_CREAT, 0644);
    CHECK(fd >= 0 && write(fd, "made", 4) == 4);
    must_hold("b", "made");
}

static void long_chain(void) {
    char name[20], next[20];
    close(new_file("l0", "end"));
    for (int i = 1; i <= 41; i++) {
        snprintf(name, sizeof name, "l%d", i);
        snprintf(next, sizeof next, "l%d", i - 1);
        CHECK(symlink(next, name) == 0);
    }
    must_hold("l40", "end");
    FAILS(ELOOP, open("l41", O_RDONLY));
}

static void hard_links(void) {
    struct stat stat;
    int fd = new_file("one", "same");
    CHECK(link("one", "two") == 0 && mkdir("dir", 0755) == 0 && link("two", "dir/three") == 0);
    FAILS(EEXIST, link("one", "two"));
    FAILS(EPERM, link("dir", "dirlink"));
    CHECK(fstat(fd, &stat) == 0 && stat.st_nlink == 3);
    CHECK(unlink("one") == 0 && pwrite(fd, "S", 1, 0) == 1);
    must_hold("dir/three", "Same");
    // A rename onto another name of the same file does nothing.
    CHECK(rename("two", "dir/three") == 0 && access("two", F_OK) == 0);
    CHECK(unlink("two") == 0 && unlink("dir/three") == 0 && fstat(fd, &stat) == 0 && stat.st_nlink == 0);
}

static void link_of_link(void) {
    close(new_file("file", "text"));
    CHECK(symlink("file", "soft") == 0);
    CHECK(linkat(AT_FDCWD, "soft", AT_FDCWD, "hard_of_soft", 0) == 0);
    CHECK(linkat(AT_FDCWD, "soft", AT_FDCWD, "hard_of_file", AT_SYMLINK_FOLLOW) == 0);
    struct stat stat;
    CHECK(lstat("hard_of_soft", &stat) == 0 && S_ISLNK(stat.st_mode) && stat.st_nlink == 2);
    CHECK(lstat("hard_of_file", &stat) == 0 && S_ISREG(stat.st_mode) && stat.st_nlink == 2);
}

static void links_of_descriptors(void) {
    int fd = open(".", O_TMPFILE | O_RDWR, 0640);
    CHECK(fd >= 0 && write(fd, "nameless", 8) == 8);
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CHECK(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW) == 0);
    must_hold("named", "nameless");
    int without = open(".", O_TMPFILE | O_RDWR | O_EXCL, 0640);
    CHECK(without >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", without);
    FAILS(ENOENT, linkat(AT_FDCWD, path, AT_FDCWD, "never", AT_SYMLINK_FOLLOW));
}

static void exchanged(void) {
    close(new_file("a", "was a"));
    CHECK(mkdir("b", 0755) == 0);
    close(new_file("b/in", "in b"));
    CHECK(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE) == 0);
    must_hold("b", "was a");
    must_hold("a/in", "in b");
    FAILS(EEXIST, renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_NOREPLACE));
    FAILS(ENOENT, renameat2(AT_FDCWD, "a", AT_FDCWD, "c", RENAME_EXCHANGE));
    FAILS(EINVAL, rename("a", "a/deeper"));
    FAILS(ENOTDIR, rename("a", "b"));
    FAILS(EISDIR, rename("b", "a"));
}

static void through_directories(void) {
    CHECK(mkdir("real", 0755) == 0 && mkdir("real/deep", 0755) == 0 && symlink("real/deep", "short") == 0);
    close(new_file("short/file", "here"));
    must_hold("real/deep/file", "here");
    // `..` behind a link is the parent of where it leads.
    close(new_file("short/../beside", "there"));
    must_hold("real/beside", "there");
    FAILS(ENOENT, open("beside", O_RDONLY));
    FAILS(ENOTDIR, rmdir("short"));
    FAILS(ENOTDIR, open("short", O_RDONLY | O_NOFOLLOW | O_DIRECTORY));
    CHECK(rename("real/deep", "real/moved") == 0);
    FAILS(ENOENT, open("short/file", O_RDONLY));
    CHECK(chdir("real/moved") == 0 && symlink("..", "up") == 0);
    must_hold("up/beside", "there");
}

static void read_in_part(void) {
    char text[PATH_MAX];
    CHECK(symlink("a target that is longer", "link") == 0);
    CHECK(readlink("link", text, 5) == 5 && memcmp(text, "a tar", 5) == 0);
    CHECK(readlink("link", text, sizeof text) == 23);
    FAILS(EINVAL, readlink("link", text, 0));
    FAILS(EINVAL, readlink(".", text, 10));
    FAILS(ENOENT, symlink("", "empty"));
    int fd = open("link", O_PATH | O_NOFOLLOW);
    CHECK(fd >= 0 && readlinkat(fd, "", text, 100) == 23);
    FAILS(EBADF, read(fd, text, 1));
    memset(text, 'x', 4095);
    text[4095] = 0;
    CHECK(symlink(text, "longest") == 0 && readlink("longest", text, sizeof text) == 4095);
}

static void trailing_slashes(void) {
    CHECK(mkdir("dir", 0755) == 0 && symlink("dir", "link") == 0);
    close(new_file("file", "x"));
    struct stat stat;
    CHECK(lstat("link/", &stat) == 0 && S_ISDIR(stat.st_mode));
    CHECK(access("dir/", F_OK) == 0 && access("link/.", F_OK) == 0);
    FAILS(ENOTDIR, access("file/", F_OK));
    FAILS(ENOTDIR, unlink("link/"));
    FAILS(EISDIR, open("new/", O_CREAT | O_WRONLY, 0644));
    CHECK(mkdir("more/", 0755) == 0 && rename("more/", "less/") == 0 && rmdir("less///") == 0);
}

static void resolved_within(void) {
    struct { uint64_t flags, mode, resolve; } how = {.flags = O_RDONLY};
    CHECK(mkdir("jail", 0755) == 0 && symlink("/out", "jail/abs") == 0 && symlink("../out", "jail/up") == 0);
    close(new_file("out", "outside"));
    close(new_file("jail/out", "inside"));
    int jail = open("jail", O_RDONLY | O_DIRECTORY);
    CHECK(jail >= 0);
    how.resolve = 0x10; // RESOLVE_IN_ROOT
    char text[10] = "";
    int fd = (int)syscall(SYS_openat2, jail, "abs", &how, sizeof how);
    CHECK(fd >= 0 && read(fd, text, 9) == 6 && strcmp(text, "inside") == 0);
    fd = (int)syscall(SYS_openat2, jail, "up", &how, sizeof how);
    CHECK(fd >= 0 && read(fd, text, 9) == 6);
    how.resolve = 0x08; // RESOLVE_BENEATH
    FAILS(EXDEV, syscall(SYS_openat2, jail, "up", &how, sizeof how));
    FAILS(EXDEV, syscall(SYS_openat2, jail, "abs", &how, sizeof how));
    how.resolve = 0x04; // RESOLVE_NO_SYMLINKS
    FAILS(ELOOP, syscall(SYS_openat2, jail, "up", &how, sizeof how));
}

CASES(
    {.name = "loops", .function = loops},
    {.name = "long_chain", .function = long_chain},
    {.name = "hard_links", .function = hard_links},
    {.name = "link_of_link", .function = link_of_link},
    {.name = "links_of_descriptors", .function = links_of_descriptors},
    {.name = "exchanged", .function = exchanged},
    {.name = "through_directories", .function = through_directories},
    {.name = "read_in_part", .function = read_in_part},
    {.name = "trailing_slashes", .function = trailing_slashes},
    {.name = "resolved_within", .function = resolved_within}, )
