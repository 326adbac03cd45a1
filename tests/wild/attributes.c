// What files are besides their bytes: modes, owners, times, sizes, holes, extended attributes.
#include "cases.h"
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

static struct stat of(const char *name) {
    struct stat stat;
    CHECK(lstat(name, &stat) == 0);
    return stat;
}

static void modes(void) {
    umask(027);
    int fd = open("file", O_RDWR | O_CREAT, 0666);
    CHECK(fd >= 0 && (of("file").st_mode & 07777) == 0640);
    CHECK(mkdir("dir", 0777) == 0 && (of("dir").st_mode & 07777) == 0750);
    CHECK(fchmod(fd, 0777) == 0 && (of("file").st_mode & 07777) == 0777);
    CHECK(chmod("dir", 01777) == 0 && (of("dir").st_mode & 07777) == 01777);
    FAILS(ENOENT, chmod("none", 0600));
    FAILS(ENOENT, chmod("", 0600));
    CHECK(fchmodat(AT_FDCWD, "file", 0600, 0) == 0 && umask(022) == 027);
    CHECK(open("odd", O_CREAT | O_WRONLY, 0) >= 0 && (of("odd").st_mode & 07777) == 0);
    CHECK(chmod("odd", 0444) == 0);
}

static void times(void) {
    struct timespec set[2] = {{1000000000, 123456789}, {-5, 0}};
    int fd = new_file("file", "x");
    CHECK(futimens(fd, set) == 0);
    struct stat stat = of("file");
    CHECK(stat.st_atim.tv_nsec == 123456789 && stat.st_mtim.tv_sec == -5);
    set[0].tv_nsec = UTIME_OMIT;
    set[1] = (struct timespec){2000000000, 1};
    CHECK(utimensat(AT_FDCWD, "file", set, 0) == 0);
    stat = of("file");
    CHECK(stat.st_atim.tv_sec == 1000000000 && stat.st_mtim.tv_sec == 2000000000 && stat.st_mtim.tv_nsec == 1);
    set[1].tv_nsec = 1000000000;
    FAILS(EINVAL, utimensat(AT_FDCWD, "file", set, 0));
    CHECK(symlink("file", "link") == 0);
    set[0] = set[1] = (struct timespec){1500000000, 0};
    CHECK(utimensat(AT_FDCWD, "link", set, AT_SYMLINK_NOFOLLOW) == 0);
    CHECK(of("link").st_mtim.tv_sec == 1500000000 && of("file").st_mtim.tv_sec == 2000000000);
}

static void sizes_and_holes(void) {
    int fd = new_file("file", "abc");
    CHECK(ftruncate(fd, 1 << 20) == 0 && pwrite(fd, "mid", 3, 500000) == 3);
    off_t data = lseek(fd, 4096, SEEK_DATA);
    CHECK(data > 4096 && data <= 500000);
    CHECK(lseek(fd, 0, SEEK_HOLE) <= 8192 && lseek(fd, 0, SEEK_END) == 1 << 20);
    FAILS(ENXIO, lseek(fd, 1 << 20, SEEK_DATA));
    CHECK(truncate("file", 2) == 0 && of("file").st_size == 2);
    FAILS(EINVAL, truncate("file", -1));
    FAILS(EISDIR, truncate(".", 0));
    CHECK(ftruncate(fd, 6) == 0);
    char text[10];
    CHECK(pread(fd, text, 10, 0) == 6 && memcmp(text, "ab\0\0\0", 6) == 0);
}

static void allocated(void) {
    int fd = new_file("file", "0123456789");
    CHECK(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 100000) == 0 && of("file").st_size == 10);
    CHECK(fallocate(fd, 0, 0, 50000) == 0 && of("file").st_size == 50000);
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2, 3) == 0);
    char text[6] = "";
    CHECK(pread(fd, text, 6, 0) == 6 && memcmp(text, "01\0\0\0005", 6) == 0);
    CHECK(fallocate(fd, FALLOC_FL_ZERO_RANGE, 7, 100) == 0 && pread(fd, text, 4, 6) == 4);
    CHECK(memcmp(text, "6\0\0\0", 4) == 0);
    FAILS(EINVAL, fallocate(fd, 0, 0, 0));
    FAILS(EBADF, fallocate(open("file", O_RDONLY), 0, 0, 1));
}

static void extended(void) {
    int fd = new_file("file", "");
    char text[100];
    CHECK(setxattr("file", "user.one", "value", 5, 0) == 0);
    CHECK(fsetxattr(fd, "user.two", "", 0, XATTR_CREATE) == 0);
    FAILS(EEXIST, setxattr("file", "user.one", "x", 1, XATTR_CREATE));
    FAILS(ENODATA, setxattr("file", "user.none", "x", 1, XATTR_REPLACE));
    CHECK(getxattr("file", "user.one", text, 100) == 5 && memcmp(text, "value", 5) == 0);
    CHECK(getxattr("file", "user.one", NULL, 0) == 5 && fgetxattr(fd, "user.two", text, 100) == 0);
    FAILS(ERANGE, getxattr("file", "user.one", text, 4));
    CHECK(flistxattr(fd, text, 100) == 18);
    CHECK(removexattr("file", "user.one") == 0);
    FAILS(ENODATA, getxattr("file", "user.one", text, 100));
    FAILS(EOPNOTSUPP, setxattr("file", "nonsense", "x", 1, 0));
}

static void extended_of_links(void) {
    char text[10];
    close(new_file("file", ""));
    CHECK(symlink("file", "link") == 0 && setxattr("link", "user.a", "through", 7, 0) == 0);
    CHECK(getxattr("file", "user.a", text, 10) == 7);
    FAILS(EPERM, lsetxattr("link", "user.a", "x", 1, 0));
    FAILS(ENODATA, lgetxattr("link", "user.a", text, 10));
    char big[3000];
    fill(big, sizeof big);
    CHECK(mkdir("dir", 0755) == 0 && setxattr("dir", "user.big", big, sizeof big, 0) == 0);
    static char found[4000];
    CHECK(getxattr("dir", "user.big", found, sizeof found) == sizeof big && memcmp(big, found, sizeof big) == 0);
}

static void statx_fields(void) {
    struct statx found;
    int fd = new_file("file", "12345");
    CHECK(statx(AT_FDCWD, "file", 0, STATX_BASIC_STATS | STATX_BTIME, &found) == 0);
    CHECK(found.stx_size == 5 && S_ISREG(found.stx_mode) && found.stx_nlink == 1);
    CHECK(statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &found) == 0 && found.stx_size == 5);
    FAILS(ENOENT, statx(fd, "", 0, STATX_SIZE, &found));
    FAILS(EINVAL, statx(fd, "", AT_EMPTY_PATH, 0x80000000u, &found));
    struct statfs fs;
    CHECK(fstatfs(fd, &fs) == 0 && fs.f_bsize > 0);
}

static void owners(void) {
    int fd = new_file("file", "x");
    struct stat stat = of("file");
    CHECK(stat.st_uid == geteuid() && stat.st_gid == getegid());
    CHECK(chown("file", (uid_t)-1, (gid_t)-1) == 0 && fchown(fd, geteuid(), (gid_t)-1) == 0);
    if (geteuid() != 0) {
        FAILS(EPERM, chown("file", 0, 0));
        FAILS(EPERM, chmod("/tmp", 0777));
    } else {
        CHECK(chown("file", 1234, 4321) == 0 && of("file").st_uid == 1234 && of("file").st_gid == 4321);
        CHECK(symlink("file", "link") == 0 && lchown("link", 7, 7) == 0 && of("link").st_uid == 7 && of("file").st_uid == 1234);
    }
}

static void set_id_bits_go(void) {
    int fd = new_file("file", "x");
    CHECK(fchmod(fd, 06755) == 0 && (of("file").st_mode & 07777) == 06755);
    CHECK(chown("file", geteuid(), getegid()) == 0);
    CHECK((of("file").st_mode & 07777) == 0755);
    CHECK(mkdir("dir", 0755) == 0 && chmod("dir", 02755) == 0);
    CHECK(mkdir("dir/in", 0755) == 0 && (of("dir/in").st_mode & 02000) == 02000);
}

static void flags_of_inodes(void) {
    int fd = new_file("file", "x"), flags = 0;
    CHECK(ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 || errno == ENOTTY || errno == EOPNOTSUPP);
    int with = flags | FS_NODUMP_FL;
    if (ioctl(fd, FS_IOC_SETFLAGS, &with) == 0) {
        CHECK(ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 && flags & FS_NODUMP_FL);
    }
    int append = open("file", O_WRONLY | O_APPEND);
    CHECK(append >= 0 && pwrite(append, "y", 1, 0) == 1);
    must_hold("file", "xy");
    CHECK(fcntl(append, F_SETFL, O_NONBLOCK) == 0 && pwrite(append, "z", 1, 0) == 1);
    must_hold("file", "zy");
}

static void permissions_hold(void) {
    CHECK(mkdir("closed", 0700) == 0);
    close(new_file("closed/file", "x"));
    close(new_file("readable", "x"));
    CHECK(chmod("closed", 0600) == 0 && chmod("readable", 0400) == 0);
    CHECK(access("closed", R_OK) == 0);
    FAILS(EACCES, open("closed/file", O_RDONLY));
    FAILS(EACCES, open("readable", O_WRONLY));
    FAILS(EACCES, open("closed/new", O_WRONLY | O_CREAT, 0644));
    FAILS(EACCES, chdir("closed"));
    CHECK(chmod("closed", 0500) == 0 && access("closed/file", W_OK) == 0);
    FAILS(EACCES, unlink("closed/file"));
    CHECK(chmod("closed", 0700) == 0 && unlink("closed/file") == 0);
}

CASES(
    {.name = "modes", .function = modes},
    {.name = "times", .function = times},
    {.name = "sizes_and_holes", .function = sizes_and_holes},
    {.name = "allocated", .function = allocated},
    {.name = "extended", .function = extended, .needs = "xattr"},
    {.name = "extended_of_links", .function = extended_of_links, .needs = "xattr"},
    {.name = "statx_fields", .function = statx_fields},
    {.name = "owners", .function = owners},
    {.name = "set_id_bits_go", .function = set_id_bits_go},
    {.name = "flags_of_inodes", .function = flags_of_inodes},
    {.name = "permissions_hold", .function = permissions_hold, .needs = "user"}, )
