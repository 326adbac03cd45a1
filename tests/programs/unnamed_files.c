// Files without a name that get one through a link of the process to its descriptor, and flags of
// inodes.
#include "expect.h"
#include <linux/fs.h>
#include <sys/ioctl.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    char bytes[100], got[100], link[64];
    fill(bytes, sizeof bytes);
    int dir = open(".", O_RDONLY | O_DIRECTORY);
    CHECK(dir >= 0);
    int fd = open(".", O_TMPFILE | O_RDWR, 0640);
    CHECK(fd >= 0);
    CHECK(write(fd, bytes, sizeof bytes) == sizeof bytes);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    CHECK(linkat(AT_FDCWD, link, dir, "named", AT_SYMLINK_FOLLOW) == 0);
    EXPECT("linkat", 0, TEXT("named"), TEXT("AT_SYMLINK_FOLLOW"));
    CHECK(close(fd) == 0);
    fd = open("named", O_RDONLY);
    CHECK(fd >= 0);
    CHECK(read(fd, got, sizeof got) == sizeof got && memcmp(got, bytes, sizeof got) == 0);
    CHECK(close(fd) == 0);

    fd = open("flags", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0);
    // Where a file system has no such flags, that is the result.
    int flags = 0;
    if (ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0) {
        flags |= FS_NODUMP_FL;
        ioctl(fd, FS_IOC_SETFLAGS, &flags);
        CHECK(ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0);
    }
    CHECK(close(fd) == 0 && close(dir) == 0);
    printf("done\n");
    return 0;
}
