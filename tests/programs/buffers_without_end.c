// Buffers that go on where no memory is: calls take what stands before, and that is what is recorded.
#include "expect.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { PAGE = 4096, PAGES = 150, SIZE = PAGES * PAGE };

static char *buffer;

// The kernel takes all that is there, or less, or refuses the buffer.
static size_t taken(const char *call, ssize_t n, const char *bytes, size_t there) {
    CHECK(n <= (ssize_t)there);
    if (n > 0)
        EXPECT(call, n, DATA(bytes, there));
    else
        CHECK(n == -1 && errno == EFAULT);
    return n > 0 ? (size_t)n : 0;
}

static void is_there(int fd, const char *bytes, size_t len) {
    static char read_back[SIZE];
    CHECK(pread(fd, read_back, len, 0) == (ssize_t)len && memcmp(read_back, bytes, len) == 0);
    EXPECT("pread64", (long)len, DATA(bytes, len));
    CHECK(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    buffer = mmap(NULL, SIZE + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(buffer != MAP_FAILED && munmap(buffer + SIZE, PAGE) == 0);
    fill(buffer, SIZE);
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600), ends[2], pair[2];
    CHECK(fd >= 0 && pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    const size_t lengths[] = {1, 100, 3000, PAGE, PAGE + 1, 3 * PAGE - 8, 40000, SIZE};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t there = lengths[i];
        const char *from = buffer + SIZE - there;
        size_t n = taken("write", write(fd, from, there + 3000), from, there);
        is_there(fd, from, n);
        n = taken("pwrite64", pwrite(fd, from, there + 1, 0), from, there);
        is_there(fd, from, n);
    }
    const char *from = buffer + SIZE - 2000;
    static char in[4000];
    size_t n = taken("write", write(ends[1], from, 3000), from, 2000);
    CHECK(n == 0 || read(ends[0], in, sizeof in) == (ssize_t)n);
    n = taken("sendto", send(pair[0], from, 3000, 0), from, 2000);
    CHECK(n == 0 || recv(pair[1], in, sizeof in, 0) == (ssize_t)n);
    struct iovec vector[3] = {{buffer, 500}, {(void *)from, 2500}, {buffer, 100}};
    ssize_t written = writev(fd, vector, 3);
    CHECK(written == -1 || written <= 2500);
    static char all[2500];
    memcpy(all, buffer, 500);
    memcpy(all + 500, from, 2000);
    if (written > 0) EXPECT("writev", written, DATA(all, 2500));
    is_there(fd, all, written > 0 ? (size_t)written : 0);
    // A struct without its end is none.
    CHECK(bind(pair[0], (struct sockaddr *)(buffer + SIZE - 10), 16) == -1 && errno == EFAULT);
    EXPECT_ERRNO("bind", EFAULT);
    CHECK(write(fd, buffer, SIZE) == SIZE);
    return 0;
}
