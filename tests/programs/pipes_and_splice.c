// splice, tee and vmsplice between files and pipes.
#include "expect.h"
#include <sys/uio.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    static char out[30000], in[30000];
    fill(out, sizeof out);
    int first[2], second[2];
    CHECK(pipe2(first, O_CLOEXEC) == 0);
    EXPECT("pipe2", 0, DATA(first, sizeof first), TEXT("O_CLOEXEC"));
    CHECK(syscall(SYS_pipe, second) == 0);
    EXPECT("pipe", 0, DATA(second, sizeof second));
    struct iovec vector = {out, sizeof out};
    CHECK(vmsplice(first[1], &vector, 1, 0) == sizeof out);
    EXPECT("vmsplice", sizeof out, DATA(out, sizeof out));
    CHECK(tee(first[0], second[1], sizeof out, 0) == sizeof out);
    EXPECT("tee", sizeof out);
    int fd = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    loff_t at = 5;
    size_t moved = 0;
    while (moved < sizeof out) {
        ssize_t n = splice(first[0], NULL, fd, &at, sizeof out - moved, SPLICE_F_MOVE);
        CHECK(n > 0);
        moved += (size_t)n;
        EXPECT("splice", n, DATA(&at, sizeof at), TEXT("SPLICE_F_MOVE"));
    }
    CHECK(at == 5 + sizeof out);
    moved = 0;
    while (moved < sizeof out) {
        ssize_t n = read(second[0], in + moved, sizeof in - moved);
        CHECK(n > 0);
        EXPECT("read", n, DATA(in + moved, (size_t)n));
        moved += (size_t)n;
    }
    CHECK(memcmp(in, out, sizeof out) == 0);
    CHECK(pread(fd, in, sizeof in, 5) == sizeof in);
    CHECK(memcmp(in, out, sizeof out) == 0);
    return 0;
}
