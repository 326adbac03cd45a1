// needs: xattr
// before: prepare
//
// Calls that change attributes by a path, on symbolic links that they follow or mean themselves. It is
// the first use of each link and of what it leads to, so all that the recording has of the two is what
// was noted at this call. `SEED prepare` makes the files, `SEED change` changes them; without a word
// both is done.
// An older strace does not know all of these names.
// count: off
#include "expect.h"
#include <stdbool.h>
#include <sys/xattr.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#endif
#ifndef SYS_removexattrat
#define SYS_removexattrat 466
#endif

struct value {
    uint64_t value;
    uint32_t size, flags;
};

static long set_times(const char *path, int flags) {
    struct timespec times[2] = {{1000, 5}, {2000, 7}};
    return utimensat(AT_FDCWD, path, times, flags);
}

static long set_owner(const char *path, int flags) { return fchownat(AT_FDCWD, path, getuid(), getgid(), flags); }

static long set_mode(const char *path, int flags) { return syscall(SYS_fchmodat2, AT_FDCWD, path, 0600, flags); }

static long set_attribute(const char *path, int flags) {
    struct value value = {(uintptr_t) "some bytes", 10, 0};
    return syscall(SYS_setxattrat, AT_FDCWD, path, flags, "user.set", &value, sizeof value);
}

static long remove_attribute(const char *path, int flags) {
    return syscall(SYS_removexattrat, AT_FDCWD, path, flags, "user.none");
}

static long set_attribute_before(const char *path, int flags) {
    return (flags ? lsetxattr : setxattr)(path, "user.set", "some bytes", 10, 0);
}

static long remove_attribute_before(const char *path, int flags) {
    return (flags ? lremovexattr : removexattr)(path, "user.none");
}

static const struct {
    const char *name;
    long (*call)(const char *path, int flags);
    // What a file without the attribute says.
    int error;
    // Attributes of links are refused in ways that differ.
    bool may_fail_on_link;
    bool may_be_missing;
} CALLS[] = {
    {"utimensat", set_times, 0, false, false},
    {"fchownat", set_owner, 0, false, false},
    {"fchmodat2", set_mode, 0, true, true},
    {"setxattrat", set_attribute, 0, true, true},
    {"removexattrat", remove_attribute, ENODATA, true, true},
    {"setxattr", set_attribute_before, 0, true, false},
    {"removexattr", remove_attribute_before, ENODATA, true, false},
};

#define COUNT (sizeof CALLS / sizeof *CALLS)

// A link to a file, and one to nothing; each kind to be followed and not to be.
static const char *KINDS[] = {"link", "dangling"};

static void name(char *to, const char *kind, size_t call, bool is_meant) {
    snprintf(to, NAME_MAX, "%s-%s-%zu", kind, is_meant ? "meant" : "followed", call);
}

static void prepare(void) {
    char target[NAME_MAX], link[NAME_MAX];
    for (size_t call = 0; call < COUNT; call++)
        for (int meant = 0; meant < 2; meant++)
            for (int kind = 0; kind < 2; kind++) {
                char what[64];
                sprintf(what, "target-of-%s", KINDS[kind]);
                name(target, what, call, meant);
                name(link, KINDS[kind], call, meant);
                CHECK(symlink(target, link) == 0);
                if (kind == 1) continue;
                int fd = open(target, O_WRONLY | O_CREAT | O_EXCL, 0640);
                CHECK(fd >= 0 && write(fd, link, strlen(link)) == (ssize_t)strlen(link));
                CHECK(close(fd) == 0);
            }
}

static void change(void) {
    char link[NAME_MAX];
    for (size_t call = 0; call < COUNT; call++)
        for (int meant = 0; meant < 2; meant++)
            for (int kind = 0; kind < 2; kind++) {
                name(link, KINDS[kind], call, meant);
                long ret = CALLS[call].call(link, meant ? AT_SYMLINK_NOFOLLOW : 0);
                if (ret < 0 && errno == ENOSYS && CALLS[call].may_be_missing) {
                    printf("skipped: this kernel has no %s\n", CALLS[call].name);
                    continue;
                }
                if (!meant && kind == 1)
                    CHECK(ret < 0 && errno == ENOENT);
                else if (!meant && CALLS[call].error)
                    CHECK(ret < 0 && errno == CALLS[call].error);
                else
                    CHECK(ret == 0 || (meant && CALLS[call].may_fail_on_link));
            }
}

// Looks at all of them, after the changes.
static void look(void) {
    char target[NAME_MAX], link[NAME_MAX];
    struct stat of_link, of_target;
    for (size_t call = 0; call < COUNT; call++)
        for (int meant = 0; meant < 2; meant++)
            for (int kind = 0; kind < 2; kind++) {
                char what[64];
                sprintf(what, "target-of-%s", KINDS[kind]);
                name(target, what, call, meant);
                name(link, KINDS[kind], call, meant);
                CHECK(lstat(link, &of_link) == 0 && S_ISLNK(of_link.st_mode));
                CHECK((lstat(target, &of_target) == 0) == (kind == 0));
                if (kind == 0) CHECK(S_ISREG(of_target.st_mode) && of_target.st_size == (off_t)strlen(link));
                if (call == 0) {
                    CHECK((of_link.st_mtime == 2000) == meant);
                    if (kind == 0) CHECK((of_target.st_mtime == 2000) == !meant);
                }
            }
}

int main(int argc, char **argv) {
    begin(argc, argv);
    if (argc == 2 || strcmp(argv[2], "prepare") == 0) prepare();
    if (argc > 2 && strcmp(argv[2], "prepare") == 0) return 0;
    change();
    // Nothing else may tell a replay what is a link.
    if (argc == 2) look();
    // The others are made by one name for links and by another one for what they lead to.
    for (size_t call = 0; call < 5; call++) EXPECT_COUNT(CALLS[call].name, 4);
    return 0;
}
