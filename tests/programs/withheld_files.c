// What no replay makes as it was: set-id bits of directories, device nodes, files that are immutable or
// append-only, attributes of the system's. What follows from them comes out as it did all the same.
#include "expect.h"
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

static mode_t mode_of(const char *path) {
    struct stat told;
    CHECK(lstat(path, &told) == 0);
    return told.st_mode;
}

// A directory with bits that make programs set-id, had they been files.
static void directories(void) {
    CHECK(mkdir("d", 0700) == 0);
    for (mode_t bits = 1; bits < 4; bits++) {
        mode_t mode = 0755 | bits << 10;
        CHECK(chmod("d", mode) == 0 && (mode_of("d") & 07777) == mode);
        CHECK(fchmodat(AT_FDCWD, "d", mode | 020, 0) == 0 && (mode_of("d") & 07777) == (mode | 020));
    }
    CHECK(mkdir("d/below", 0700) == 0 && (mode_of("d/below") & 07777) == 02700);
}

static void looked_at(const char *name, mode_t type, dev_t device) {
    struct stat told;
    struct statx more;
    CHECK(stat(name, &told) == 0 && (told.st_mode & S_IFMT) == type && told.st_rdev == device);
    CHECK(statx(AT_FDCWD, name, 0, STATX_BASIC_STATS, &more) == 0);
    CHECK((more.stx_mode & S_IFMT) == type);
}

// A node: what is done to it, and to its name.
static void node(const char *name, mode_t type, dev_t device) {
    CHECK(mkdir("nodes", 0755) == 0 && chdir("nodes") == 0);
    CHECK(mknod(name, type | 0620, device) == 0);
    CHECK(mknod(name, type | 0620, device) == -1 && errno == EEXIST);
    looked_at(name, type, device);
    CHECK(chmod(name, 0600) == 0 && rename(name, "other") == 0 && link("other", name) == 0);
    looked_at("other", type, device);
    CHECK(access(name, F_OK) == 0 && symlink(name, "soft") == 0);
    looked_at("soft", type, device);
    CHECK(rmdir("../nodes") == -1 && errno == ENOTEMPTY);
    if (type == S_IFCHR && device == makedev(1, 5)) {
        char got[4] = "abc";
        int fd = open(name, O_RDWR);
        // On a disk that has no nodes nobody opens them.
        if (fd >= 0) {
            struct stat told;
            CHECK(read(fd, got, 3) == 3 && got[0] == 0 && write(fd, "hello", 5) == 5);
            CHECK(fstat(fd, &told) == 0 && told.st_rdev == device && close(fd) == 0);
            CHECK((fd = open("soft", O_WRONLY | O_TRUNC)) >= 0 && write(fd, "hello", 5) == 5);
            CHECK(close(fd) == 0);
        }
    }
    CHECK(unlink("soft") == 0 && unlink("other") == 0);
    looked_at(name, type, device);
    CHECK(unlink(name) == 0 && access(name, F_OK) == -1 && errno == ENOENT);
    // The name is a file's now.
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    char got[8];
    CHECK(fd >= 0 && write(fd, "a file", 6) == 6 && pread(fd, got, 8, 0) == 6);
    CHECK(close(fd) == 0 && (fd = open(name, O_RDONLY)) >= 0 && read(fd, got, 8) == 6);
    CHECK(close(fd) == 0 && unlink(name) == 0 && chdir("..") == 0 && rmdir("nodes") == 0);
}

// Files that nobody may change, or only append to.
static void guarded(void) {
    int fd = open("guarded", O_RDWR | O_CREAT | O_EXCL, 0600);
    int flags = 0, none = 0, set = FS_IMMUTABLE_FL;
    CHECK(fd >= 0 && write(fd, "hello", 5) == 5);
    if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0 || ioctl(fd, FS_IOC_SETFLAGS, &set) < 0)
        return;
    CHECK(unlink("guarded") == -1 && errno == EPERM);
    CHECK(rename("guarded", "b") == -1 && errno == EPERM && chmod("guarded", 0640) == -1 && errno == EPERM);
    CHECK(link("guarded", "b") == -1 && errno == EPERM && truncate("guarded", 0) == -1 && errno == EPERM);
    CHECK(open("guarded", O_WRONLY) == -1 && errno == EPERM && fchmod(fd, 0640) == -1 && errno == EPERM);
    CHECK(ioctl(fd, FS_IOC_SETFLAGS, &none) == 0 && chmod("guarded", 0640) == 0);
    set = FS_APPEND_FL;
    CHECK(ioctl(fd, FS_IOC_SETFLAGS, &set) == 0);
    CHECK(truncate("guarded", 0) == -1 && errno == EPERM && unlink("guarded") == -1 && errno == EPERM);
    int appends = open("guarded", O_WRONLY | O_APPEND);
    CHECK(appends >= 0 && write(appends, "more", 4) == 4);
    CHECK(ioctl(fd, FS_IOC_SETFLAGS, &none) == 0 && unlink("guarded") == 0);
    // In a directory that nobody may change.
    CHECK(mkdir("kept", 0755) == 0 && mkdir("kept/in", 0755) == 0);
    int dir = open("kept", O_RDONLY | O_DIRECTORY);
    set = FS_IMMUTABLE_FL;
    CHECK(dir >= 0 && ioctl(dir, FS_IOC_SETFLAGS, &set) == 0);
    CHECK(mkdir("kept/new", 0755) == -1 && errno == EPERM && rmdir("kept/in") == -1 && errno == EPERM);
    CHECK(open("kept/new", O_WRONLY | O_CREAT, 0600) == -1 && errno == EPERM);
    CHECK(ioctl(dir, FS_IOC_SETFLAGS, &none) == 0 && rmdir("kept/in") == 0);
}

// Names of attributes of which a replay does not have all.
static void attributes(void) {
    char list[256];
    int fd = open("file", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0);
    if (fsetxattr(fd, "trusted.one", "value", 5, 0) < 0 || fsetxattr(fd, "user.two", "v", 1, 0) < 0)
        return;
    CHECK(listxattr("file", list, 12) == -1 && errno == ERANGE);
    CHECK(flistxattr(fd, list, 12) == -1 && errno == ERANGE);
    CHECK(listxattr("file", list, sizeof list) >= 21 && listxattr("file", NULL, 0) >= 21);
    CHECK(getxattr("file", "trusted.one", list, 2) == -1 && errno == ERANGE);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    umask(0);
    directories();
    if (geteuid() != 0) {
        CHECK(mknod("node", S_IFCHR | 0600, makedev(1, 3)) == -1 && errno == EPERM);
        return 0;
    }
    node("zero", S_IFCHR, makedev(1, 5));
    node("disk", S_IFBLK, makedev(7, 200));
    guarded();
    attributes();
    return 0;
}
