// Mounts, made in a namespace of the case's own: tmpfs, binds, moves, what they hide and show.
#include "cases.h"
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

// A mount namespace whose mounts nobody else sees; with a user namespace for who is not root.
static void own_mounts(void) {
    char map[40];
    uid_t uid = geteuid();
    gid_t gid = getegid();
    CHECK(unshare(CLONE_NEWNS | (uid ? CLONE_NEWUSER : 0)) == 0);
    if (uid) {
        put("/proc/self/setgroups", "deny");
        snprintf(map, sizeof map, "0 %u 1", uid);
        put("/proc/self/uid_map", map);
        snprintf(map, sizeof map, "0 %u 1", gid);
        put("/proc/self/gid_map", map);
    }
    CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
}

static void tmpfs(void) {
    own_mounts();
    CHECK(mkdir("dir", 0755) == 0);
    close(new_file("dir/below", "hidden"));
    CHECK(mount("none", "dir", "tmpfs", 0, "size=1m,mode=700") == 0);
    FAILS(ENOENT, open("dir/below", O_RDONLY));
    close(new_file("dir/above", "shown"));
    must_hold("dir/above", "shown");
    FAILS(EBUSY, rmdir("dir"));
    FAILS(EXDEV, rename("dir/above", "above"));
    FAILS(EXDEV, link("dir/above", "above"));
    CHECK(umount("dir") == 0);
    must_hold("dir/below", "hidden");
    FAILS(ENOENT, open("dir/above", O_RDONLY));
}

static void full_tmpfs(void) {
    static char block[4096];
    own_mounts();
    CHECK(mkdir("dir", 0755) == 0 && mount("none", "dir", "tmpfs", 0, "size=64k") == 0);
    int fd = open("dir/file", O_WRONLY | O_CREAT, 0644), written = 0;
    while (write(fd, block, sizeof block) == sizeof block) written++;
    CHECK(errno == ENOSPC && written > 4 && written <= 16);
    CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, block, 1, 0) == 1);
    close(fd);
    CHECK(umount("dir") == 0);
}

static void bind_directory(void) {
    own_mounts();
    CHECK(mkdir("from", 0755) == 0 && mkdir("to", 0755) == 0);
    close(new_file("from/file", "once"));
    CHECK(mount("from", "to", NULL, MS_BIND, NULL) == 0);
    must_hold("to/file", "once");
    put("to/file", "both");
    must_hold("from/file", "both");
    CHECK(unlink("to/file") == 0 && access("from/file", F_OK) != 0);
    CHECK(umount("to") == 0);
}

static void bind_file(void) {
    own_mounts();
    close(new_file("one", "one"));
    close(new_file("two", "two"));
    CHECK(mount("one", "two", NULL, MS_BIND, NULL) == 0);
    must_hold("two", "one");
    FAILS(EBUSY, unlink("two"));
    CHECK(umount2("two", MNT_DETACH) == 0);
    must_hold("two", "two");
}

static void read_only(void) {
    own_mounts();
    CHECK(mkdir("dir", 0755) == 0 && mount("dir", "dir", NULL, MS_BIND, NULL) == 0);
    close(new_file("dir/file", "before"));
    CHECK(mount(NULL, "dir", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) == 0);
    FAILS(EROFS, open("dir/new", O_WRONLY | O_CREAT, 0644));
    FAILS(EROFS, open("dir/file", O_WRONLY));
    FAILS(EROFS, unlink("dir/file"));
    struct statvfs found;
    CHECK(statvfs("dir", &found) == 0 && found.f_flag & ST_RDONLY);
    must_hold("dir/file", "before");
    CHECK(umount("dir") == 0);
    put("dir/file", "behind");
}

static void moved(void) {
    own_mounts();
    CHECK(mkdir("a", 0755) == 0 && mkdir("b", 0755) == 0 && mount("none", "a", "tmpfs", 0, NULL) == 0);
    close(new_file("a/file", "moves"));
    int fd = open("a/file", O_RDWR);
    CHECK(mount("a", "b", NULL, MS_MOVE, NULL) == 0 && access("a/file", F_OK) != 0);
    must_hold("b/file", "moves");
    FAILS(EBUSY, umount("b"));
    CHECK(umount2("b", MNT_DETACH) == 0 && pwrite(fd, "M", 1, 0) == 1);
}

static void stacked(void) {
    own_mounts();
    CHECK(mkdir("dir", 0755) == 0);
    for (int i = 0; i < 3; i++) {
        char name[20], text[2] = {(char)('0' + i), 0};
        snprintf(name, sizeof name, "dir/at%d", i);
        CHECK(mount("none", "dir", "tmpfs", 0, NULL) == 0);
        close(new_file(name, text));
    }
    for (int i = 2; i >= 0; i--) {
        char name[20], text[2] = {(char)('0' + i), 0};
        snprintf(name, sizeof name, "dir/at%d", i);
        must_hold(name, text);
        CHECK(umount("dir") == 0 && access(name, F_OK) != 0);
    }
    FAILS(EINVAL, umount("dir"));
}

static void new_interface(void) {
    own_mounts();
    CHECK(mkdir("dir", 0755) == 0);
    int fs = (int)syscall(SYS_fsopen, "tmpfs", 0);
    CHECK(fs >= 0 && syscall(SYS_fsconfig, fs, 1, "size", "1m", 0) == 0 && syscall(SYS_fsconfig, fs, 6, NULL, NULL, 0) == 0);
    int mnt = (int)syscall(SYS_fsmount, fs, 0, 0);
    CHECK(mnt >= 0);
    int fd = openat(mnt, "file", O_WRONLY | O_CREAT, 0644);
    CHECK(fd >= 0 && write(fd, "loose", 5) == 5);
    CHECK(syscall(SYS_move_mount, mnt, "", AT_FDCWD, "dir", 4) == 0);
    must_hold("dir/file", "loose");
    CHECK(umount2("dir", MNT_DETACH) == 0 && access("dir/file", F_OK) != 0);
}

static void wrong_uses(void) {
    own_mounts();
    CHECK(mkdir("dir", 0755) == 0);
    close(new_file("file", "x"));
    FAILS(ENODEV, mount("none", "dir", "no_such_file_system", 0, NULL));
    FAILS(ENOENT, mount("none", "nowhere", "tmpfs", 0, NULL));
    FAILS(ENOTDIR, mount("dir", "file", NULL, MS_BIND, NULL));
    FAILS(EINVAL, mount("none", "dir", "tmpfs", 0, "nonsense=1"));
    FAILS(EINVAL, umount("dir"));
}

static void forbidden(void) {
    CHECK(mkdir("dir", 0755) == 0);
    FAILS(EPERM, mount("none", "dir", "tmpfs", 0, NULL));
    FAILS(EPERM, unshare(CLONE_NEWNS));
    FAILS(EPERM, umount("/proc"));
    FAILS(EPERM, chroot("dir"));
}

CASES(
    {.name = "wrong_uses", .function = wrong_uses, .needs = "userns"},
    {.name = "tmpfs", .function = tmpfs, .needs = "userns"},
    {.name = "full_tmpfs", .function = full_tmpfs, .needs = "userns"},
    {.name = "bind_directory", .function = bind_directory, .needs = "userns"},
    {.name = "bind_file", .function = bind_file, .needs = "userns"},
    {.name = "read_only", .function = read_only, .needs = "userns"},
    {.name = "moved", .function = moved, .needs = "userns"},
    {.name = "stacked", .function = stacked, .needs = "userns"},
    {.name = "new_interface", .function = new_interface, .needs = "userns"},
    {.name = "forbidden", .function = forbidden, .needs = "user"}, )
