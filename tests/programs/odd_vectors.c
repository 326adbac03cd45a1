// Vectors that the kernel refuses, descriptors that they cannot be used with, transfers past the page
// cache, and memory that is spliced.
#include "expect.h"
#include <linux/fs.h>
#include <sys/mman.h>
#include <sys/uio.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    char bytes[100], got[100];
    fill(bytes, sizeof bytes);
    int fd = open("file", O_RDWR | O_CREAT, 0600), dir = open(".", O_RDONLY | O_DIRECTORY);
    CHECK(fd >= 0 && dir >= 0 && write(fd, bytes, sizeof bytes) == sizeof bytes);
    struct iovec good[2] = {{got, 50}, {got + 50, 50}};
    CHECK(preadv(fd, good, 2, 0) == 100 && memcmp(got, bytes, 100) == 0);
    EXPECT("preadv", 100, DATA(bytes, 100));
    // Lengths that are negative, or too much together; too many elements, or none.
    struct iovec negative[2] = {{got, 50}, {got + 50, (size_t)-1}};
    struct iovec much[2] = {{got, SSIZE_MAX}, {got, SSIZE_MAX}};
    for (int way = 0; way < 2; way++) {
        struct iovec *bad = way ? much : negative;
        long sum = way ? -2 : -1;
        long ret = readv(fd, bad, 2);
        CHECK(sum == -2 || (ret == -1 && errno == EINVAL));
        lseek(fd, 0, SEEK_SET);
        CHECK(way || (writev(fd, bad, 2) == -1 && errno == EINVAL));
        CHECK(way || (preadv(fd, bad, 2, 0) == -1 && errno == EINVAL));
        CHECK(way || (pwritev2(fd, bad, 2, 0, 0) == -1 && errno == EINVAL));
    }
    CHECK(syscall(SYS_readv, fd, good, 1025) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_readv, fd, good, -1) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_writev, fd, good, 1025) == -1 && errno == EINVAL);
    CHECK(readv(fd, good, 0) == 0 && writev(fd, NULL, 0) == 0);
    CHECK(syscall(SYS_readv, fd, (void *)8, 2) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_writev, fd, (void *)8, 2) == -1 && errno == EFAULT);
    // Directories, and descriptors that are for writing only.
    CHECK(read(dir, got, 10) == -1 && errno == EISDIR);
    CHECK(readv(dir, good, 2) == -1 && errno == EISDIR);
    CHECK(pread(dir, got, 10, 0) == -1 && errno == EISDIR);
    CHECK(preadv(dir, good, 2, 0) == -1 && errno == EISDIR);
    CHECK(write(dir, got, 10) == -1 && errno == EBADF);
    CHECK(writev(dir, good, 2) == -1 && errno == EBADF);
    CHECK(pread(fd, got, 10, -1) == -1 && errno == EINVAL);
    CHECK(preadv(fd, good, 2, -1) == -1 && errno == EINVAL);
    CHECK(preadv2(fd, good, 2, 0, 0x40000000) == -1 && errno == EOPNOTSUPP);
    int only = open("file", O_WRONLY);
    CHECK(only >= 0 && readv(only, good, 2) == -1 && errno == EBADF);
    CHECK(read(only, got, 1) == -1 && errno == EBADF);
    // NULL is as bad as any address, unless nothing is to be had.
    CHECK(read(fd, NULL, 0) == 0);
    lseek(fd, 0, SEEK_SET);
    CHECK(syscall(SYS_read, fd, NULL, 10) == -1 && errno == EFAULT);

    // Memory at the wrong place for a transfer past the page cache, where that is asked for at all.
    char *aligned;
    CHECK(posix_memalign((void **)&aligned, 4096, 8192) == 0);
    memset(aligned, 'a', 8192);
    int direct = open("direct", O_RDWR | O_CREAT | O_DIRECT, 0600);
    if (direct >= 0) {
        CHECK(write(direct, aligned, 4096) == 4096 && lseek(direct, 0, SEEK_SET) == 0);
        long ret = read(direct, aligned + 1, 4096);
        CHECK(ret == 4096 || (ret == -1 && errno == EINVAL));
        ret = pread(direct, aligned, 100, 1);
        CHECK(ret == 100 || (ret == -1 && errno == EINVAL));
        struct iovec crooked = {aligned + 3, 512};
        ret = preadv(direct, &crooked, 1, 0);
        CHECK(ret == 512 || (ret == -1 && errno == EINVAL));
        CHECK(pread(direct, aligned, 4096, 0) == 4096 && aligned[4095] == 'a');
    }

    // vmsplice: into a pipe, out of it, and with what is none.
    int ends[2];
    CHECK(pipe(ends) == 0);
    struct iovec part = {bytes, 40};
    CHECK(vmsplice(ends[1], &part, 1, 0) == 40);
    struct iovec room = {got, 30};
    CHECK(vmsplice(ends[0], &room, 1, 0) == 30 && memcmp(got, bytes, 30) == 0);
    CHECK(read(ends[0], got, 100) == 10 && memcmp(got, bytes + 30, 10) == 0);
    CHECK(vmsplice(fd, &part, 1, 0) == -1 && errno == EBADF);
    CHECK(vmsplice(dir, &part, 1, 0) == -1 && errno == EBADF);
    CHECK(vmsplice(ends[1], &part, 1025, 0) == -1 && errno == EINVAL);
    struct stat told;
    CHECK(fstat(fd, &told) == 0 && told.st_size == 100);
    return 0;
}
