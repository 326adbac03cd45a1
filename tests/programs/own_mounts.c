// Mounts of the program's own, in a namespace of its own: what lies in them hides what is below, and is
// gone when they are; and another root.
// needs: userns
#include "expect.h"
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>

static void put(const char *path, const char *text) {
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

static void holds(const char *path, const char *text) {
    char got[64] = "";
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && read(fd, got, sizeof got - 1) == (ssize_t)strlen(text));
    CHECK(strcmp(got, text) == 0 && close(fd) == 0);
}

// This user, and nobody else, has an id in there.
static void enter_namespaces(void) {
    char uids[32], gids[32];
    snprintf(uids, sizeof uids, "0 %d 1", (int)getuid());
    snprintf(gids, sizeof gids, "0 %d 1", (int)getgid());
    CHECK(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0);
    const char *files[][2] = {{"setgroups", "deny"}, {"uid_map", uids}, {"gid_map", gids}};
    for (int i = 0; i < 3; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/%s", files[i][0]);
        int fd = open(path, O_WRONLY);
        long len = strlen(files[i][1]);
        CHECK(fd >= 0 && write(fd, files[i][1], len) == len && close(fd) == 0);
    }
}

static void inside(void) {
    struct stat told;
    enter_namespaces();
    // Memory, over a directory with a file.
    CHECK(mount("none", "m", "tmpfs", 0, NULL) == 0);
    CHECK(access("m/below", F_OK) == -1 && errno == ENOENT);
    put("m/above", "in the mount");
    holds("m/above", "in the mount");
    CHECK(stat("m/above", &told) == 0 && told.st_size == 12);
    CHECK(mkdir("m/dir", 0700) == 0 && rename("m/above", "m/dir/moved") == 0);
    // The working directory is in there for a while.
    CHECK(chdir("m/dir") == 0);
    put("here", "relative");
    holds("../dir/here", "relative");
    CHECK(chdir("../..") == 0);
    put("outside", "not in the mount");
    CHECK(stat("outside", &told) == 0 && told.st_size == 16);
    int dir = open("m/dir", O_RDONLY | O_DIRECTORY);
    CHECK(dir >= 0 && fstatat(dir, "moved", &told, 0) == 0 && told.st_size == 12);
    CHECK(unlinkat(dir, "moved", 0) == 0 && close(dir) == 0);
    // A child sees it as well.
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        holds("m/dir/here", "relative");
        put("m/by the child", "child");
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    holds("m/by the child", "child");
    CHECK(umount2("m", MNT_DETACH) == 0);
    holds("m/below", "below");
    CHECK(unlink("m/below") == 0 && rmdir("m") == 0);

    // One directory at two places.
    CHECK(mount("a", "b", NULL, MS_BIND, NULL) == 0);
    holds("b/f", "in a");
    put("a/direct", "direct");
    CHECK(stat("b/direct", &told) == 0 && told.st_size == 6);
    CHECK(umount2("b", 0) == 0);
    CHECK(rmdir("b") == 0);

    // What is mounted below comes along, or not.
    CHECK(mkdir("b", 0755) == 0 && mkdir("b/sub", 0755) == 0 && mkdir("c", 0755) == 0);
    CHECK(mount("none", "b/sub", "tmpfs", 0, "mode=700") == 0);
    put("b/sub/deep", "deep");
    CHECK(mount("b", "c", NULL, MS_BIND | MS_REC, NULL) == 0);
    holds("c/sub/deep", "deep");
    CHECK(umount2("c", MNT_DETACH) == 0 && mount("b", "c", NULL, MS_BIND, NULL) == 0);
    CHECK(access("c/sub/deep", F_OK) == -1 && errno == ENOENT);
    CHECK(umount2("c", MNT_DETACH) == 0 && rename("b", "d") == 0);
    holds("d/sub/deep", "deep");
    CHECK(umount2("d/sub", MNT_DETACH) == 0 && rmdir("d/sub") == 0 && rmdir("d") == 0);

    // By the link of a descriptor.
    CHECK(mkdir("g", 0755) == 0);
    int target = open("g", O_PATH | O_DIRECTORY);
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", target);
    CHECK(target >= 0 && mount("a", link, NULL, MS_BIND, NULL) == 0);
    holds("g/f", "in a");
    put("g/by link", "by link");
    holds("a/by link", "by link");
    CHECK(umount2("g", MNT_DETACH) == 0 && close(target) == 0);
    CHECK(access("g/f", F_OK) == -1 && rmdir("g") == 0);

    // Another root.
    CHECK(mkdir("root", 0755) == 0 && mkdir("root/sub", 0755) == 0);
    int before = open(".", O_RDONLY | O_DIRECTORY);
    CHECK(before >= 0 && chroot("root") == 0 && chdir("/") == 0);
    CHECK(access("/sub", F_OK) == 0 && access("/root", F_OK) == -1);
    CHECK(openat(before, "a", O_PATH) >= 0);
}

// A root made of other directories, as containers have.
static void contained(void) {
    enter_namespaces();
    CHECK(mkdir("box", 0755) == 0 && mount("none", "box", "tmpfs", 0, "mode=755") == 0);
    CHECK(mkdir("box/old", 0755) == 0 && mkdir("box/data", 0755) == 0);
    CHECK(mount("a", "box/data", NULL, MS_BIND | MS_REC, NULL) == 0);
    CHECK(symlink("data/direct", "box/link") == 0 && symlink("/data", "box/absolute") == 0);
    CHECK(chdir("box") == 0 && syscall(SYS_pivot_root, ".", "old") == 0 && chdir("/") == 0);
    holds("/link", "direct");
    holds("/absolute/f", "in a");
    put("/new", "in memory");
    CHECK(chdir("/data") == 0 && access("../new", F_OK) == 0);
    put("from inside", "both");
    CHECK(umount2("/old", MNT_DETACH) == 0 && rmdir("/old") == 0);
    CHECK(access("/usr", F_OK) == -1 && errno == ENOENT);
    // The root under itself.
    CHECK(mkdir("/last", 0755) == 0 && mount("/data", "/last", NULL, MS_BIND, NULL) == 0);
    CHECK(chdir("/last") == 0 && syscall(SYS_pivot_root, ".", ".") == 0);
    CHECK(umount2(".", MNT_DETACH) == 0 && chdir("/") == 0);
    holds("/from inside", "both");
    CHECK(access("/new", F_OK) == -1 && errno == ENOENT);
}

static void in_child(void (*function)(void)) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        function();
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    CHECK(mkdir("m", 0755) == 0 && mkdir("a", 0755) == 0 && mkdir("b", 0755) == 0);
    put("m/below", "below");
    put("a/f", "in a");
    in_child(inside);
    in_child(contained);
    // Who is outside never saw any of it.
    CHECK(access("m", F_OK) == -1 && access("outside", F_OK) == 0);
    CHECK(access("box/new", F_OK) == -1 && rmdir("box") == 0);
    holds("a/from inside", "both");
    return 0;
}
