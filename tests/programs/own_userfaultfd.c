// count: off
// gaps: unwatched
// Watches its own memory, as a collector of garbage or a virtual machine does, some of which the
// recorder watches too.
#include "expect.h"
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

enum { PAGE = 4096, LEN = 8 * PAGE, NOTICES = 1 << 13 | 1 << 15 };

int main(int argc, char **argv) {
    begin(argc, argv);
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, LEN) == 0);
    char *at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    memset(at, 'x', PAGE);
    CHECK(fsync(fd) == 0);
    memset(at + PAGE, 'y', PAGE);
    int own = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    if (own < 0) {
        printf("no userfaultfd: %d\n", errno);
        return 0;
    }
    struct uffdio_api api = {.api = UFFD_API, .features = NOTICES};
    struct uffdio_register memory = {{(uint64_t)at, LEN}, UFFDIO_REGISTER_MODE_WP, 0};
    // Fails on older kernels; but never because somebody else watches the memory.
    int knows = ioctl(own, UFFDIO_API, &api) == 0;
    CHECK(!knows || ioctl(own, UFFDIO_REGISTER, &memory) == 0);
    memset(at + 2 * PAGE, 'z', PAGE);
    CHECK(fsync(fd) == 0);
    char *other = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(other != MAP_FAILED);
    memory.range.start = (uint64_t)other;
    CHECK(!knows || ioctl(own, UFFDIO_REGISTER, &memory) == 0);
    other[5 * PAGE] = 'o';
    CHECK(at[5 * PAGE] == 'o' && munmap(at, LEN) == 0 && munmap(other, LEN) == 0);
    return 0;
}
