// Files without a name, opened again by the links that a process has to its own descriptors: each has
// an offset and an access mode of its own, and all that is asked about the link is told of the file.
#include "expect.h"
#include <sys/mman.h>
#include <sys/statfs.h>

static char link_[64];

static const char *own(int way, int fd) {
    const char *forms[] = {"/proc/self/fd/%d", "/dev/fd/%d", "/proc/thread-self/fd/%d", "/proc/%d/fd/%d"};
    if (way == 3)
        snprintf(link_, sizeof link_, forms[way], (int)getpid(), fd);
    else
        snprintf(link_, sizeof link_, forms[way], fd);
    return link_;
}

// Opened again four ways; what is asked and changed by the link.
static void reopened(int fd, mode_t type) {
    char got[16] = "";
    struct stat told;
    CHECK(write(fd, "hello", 5) == 5);
    for (int way = 0; way < 4; way++) {
        int again = open(own(way, fd), O_RDONLY | O_CLOEXEC);
        CHECK(again >= 0);
        CHECK(read(again, got, sizeof got) == 5 && memcmp(got, "hello", 5) == 0);
        EXPECT("read", 5, DATA("hello", 5));
        CHECK(read(again, got, sizeof got) == 0);
        CHECK(write(again, "x", 1) == -1 && errno == EBADF);
        // The other one is where it was.
        CHECK(lseek(fd, 0, SEEK_CUR) == 5);
        CHECK((fcntl(again, F_GETFL) & O_ACCMODE) == O_RDONLY);
        CHECK(close(again) == 0);
        CHECK(stat(own(way, fd), &told) == 0 && told.st_size == 5 && (told.st_mode & S_IFMT) == type);
        CHECK(fstatat(AT_FDCWD, own(way, fd), &told, 0) == 0 && told.st_size == 5);
        CHECK(lstat(own(way, fd), &told) == 0 && S_ISLNK(told.st_mode));
        CHECK(access(own(way, fd), R_OK) == 0);
    }
    struct statfs about;
    CHECK(statfs(own(0, fd), &about) == 0);
    CHECK(chmod(own(0, fd), 0600) == 0);
    CHECK(fstat(fd, &told) == 0 && (told.st_mode & 07777) == 0600);
    CHECK(fchmodat(AT_FDCWD, own(0, fd), 0640, 0) == 0);
    CHECK(fstat(fd, &told) == 0 && (told.st_mode & 07777) == 0640);
    struct timespec times[2] = {{1000, 1}, {2000, 2}};
    CHECK(utimensat(AT_FDCWD, own(0, fd), times, 0) == 0);
    CHECK(fstat(fd, &told) == 0 && told.st_mtim.tv_sec == 2000);
    CHECK(truncate(own(0, fd), 3) == 0);
    CHECK(fstat(fd, &told) == 0 && told.st_size == 3);
    int again = open(own(0, fd), O_RDWR | O_TRUNC);
    CHECK(again >= 0 && fstat(fd, &told) == 0 && told.st_size == 0);
    CHECK(write(again, "by another", 10) == 10);
    CHECK(pread(fd, got, sizeof got, 0) == 10 && memcmp(got, "by another", 10) == 0);
    EXPECT("pread64", 10, DATA("by another", 10));
    // A copy of the one that was opened again is opened once more.
    int third = open(own(0, dup(again)), O_WRONLY | O_APPEND);
    CHECK(third >= 0 && write(third, "!", 1) == 1);
    CHECK(pread(fd, got, sizeof got, 0) == 11 && got[10] == '!');
    CHECK(close(third) == 0 && close(again) == 0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    int memory = memfd_create("some memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(memory >= 0);
    reopened(memory, S_IFREG);
    // What seals forbid.
    CHECK(fcntl(memory, F_GET_SEALS) == 0);
    CHECK(ftruncate(memory, 8192) == 0);
    CHECK(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    CHECK(fcntl(memory, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW));
    CHECK(ftruncate(memory, 4096) == -1 && errno == EPERM);
    CHECK(ftruncate(memory, 16384) == -1 && errno == EPERM);
    CHECK(pwrite(memory, "x", 1, 8192) == -1 && errno == EPERM);
    CHECK(pwrite(memory, "x", 1, 100) == 1);
    CHECK(fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL) == 0);
    CHECK(pwrite(memory, "x", 1, 100) == -1 && errno == EPERM);
    CHECK(fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE) == -1 && errno == EPERM);
    int unsealed = memfd_create("other", 0);
    CHECK(unsealed >= 0 && fcntl(unsealed, F_ADD_SEALS, F_SEAL_WRITE) == -1 && errno == EPERM);
    struct stat told;
    CHECK(fstat(memory, &told) == 0 && told.st_size == 8192 && told.st_nlink == 0);
    // What stores to memory change, no call tells.
    char *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, unsealed, 0);
    CHECK(mapped != MAP_FAILED && ftruncate(unsealed, 4096) == 0);
    strcpy(mapped, "stored");
    char got[16];
    CHECK(pread(unsealed, got, 6, 0) == 6 && memcmp(got, "stored", 6) == 0);

    int unlinked = open("unlinked", O_RDWR | O_CREAT | O_EXCL, 0666);
    CHECK(unlinked >= 0 && unlink("unlinked") == 0);
    reopened(unlinked, S_IFREG);
    // The name is another file's now.
    int other = open("unlinked", O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(other >= 0 && write(other, "other", 5) == 5);
    int again = open(own(0, unlinked), O_RDONLY);
    CHECK(again >= 0 && read(again, got, 5) == 5 && memcmp(got, "by an", 5) == 0);
    CHECK(close(again) == 0 && unlink("unlinked") == 0);

    int unnamed = open(".", O_TMPFILE | O_RDWR, 0600);
    CHECK(unnamed >= 0);
    reopened(unnamed, S_IFREG);

    // It has another name than it was opened by.
    int renamed = open("before", O_RDWR | O_CREAT | O_EXCL, 0666);
    CHECK(renamed >= 0 && rename("before", "after") == 0);
    reopened(renamed, S_IFREG);

    // With descriptors of these kinds nothing can be changed, by their links it can.
    int named = open("named", O_RDWR | O_CREAT | O_EXCL, 0666);
    CHECK(named >= 0 && write(named, "hello", 5) == 5);
    int alone = open("named", O_PATH);
    CHECK(alone >= 0 && fchmod(alone, 0600) == -1 && errno == EBADF);
    CHECK(chmod(own(0, alone), 0600) == 0 && truncate(own(0, alone), 4) == 0);
    CHECK(fstat(named, &told) == 0 && (told.st_mode & 07777) == 0600 && told.st_size == 4);
    int read_only = open("named", O_RDONLY);
    CHECK(read_only >= 0 && ftruncate(read_only, 3) == -1 && errno == EINVAL);
    CHECK(truncate(own(0, read_only), 3) == 0 && fstat(named, &told) == 0 && told.st_size == 3);

    // Directories: opened again, and the way to what is in them.
    CHECK(mkdir("here", 0755) == 0);
    int dir = open("here", O_RDONLY | O_DIRECTORY);
    int path = open("here", O_PATH);
    CHECK(dir >= 0 && path >= 0 && rename("here", "there") == 0);
    int opened = open(own(0, path), O_RDONLY | O_DIRECTORY);
    CHECK(opened >= 0 && fchdir(opened) == 0 && chdir("..") == 0);
    char below[80];
    snprintf(below, sizeof below, "%s/file", own(0, dir));
    int file = open(below, O_RDWR | O_CREAT, 0600);
    CHECK(file >= 0 && write(file, "below", 5) == 5);
    CHECK(access("there/file", R_OK) == 0);
    CHECK(stat(below, &told) == 0 && told.st_size == 5);
    CHECK(chdir(own(0, dir)) == 0 && access("file", R_OK) == 0);
    file = open("/proc/self/cwd/file", O_RDONLY);
    CHECK(file >= 0 && read(file, got, 5) == 5);
    CHECK(unlinkat(AT_FDCWD, below, 0) == 0 && access("file", F_OK) == -1 && errno == ENOENT);
    return 0;
}
