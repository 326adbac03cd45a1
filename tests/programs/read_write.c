// read and write with buffers of every size, from nothing to more than a ring holds.
#include "expect.h"

int main(int argc, char **argv) {
    begin(argc, argv);
    static const size_t lens[] = {0,    1,    7,     8,     9,       63,      64,      65,     511,
                                  4095, 4096, 4097,  65535, 65536,   65537,   100000,  262144, 1048576,
                                  3000001, 12582912};
    int fd = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    EXPECT("openat", fd, TEXT("data"), TEXT("O_CREAT"));
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        size_t len = lens[i];
        char *out = malloc(len + 1), *in = malloc(len + 1);
        fill(out, len);
        CHECK(lseek(fd, 0, SEEK_SET) == 0);
        CHECK(write(fd, out, len) == (ssize_t)len);
        CHECK(lseek(fd, 0, SEEK_SET) == 0);
        CHECK(read(fd, in, len) == (ssize_t)len);
        CHECK(memcmp(in, out, len) == 0);
        if (len == 0) {
            EXPECT("write", 0);
            EXPECT("read", 0);
        } else {
            EXPECT("write", len, DATA(out, len));
            EXPECT("read", len, DATA(out, len));
        }
        free(out);
        free(in);
    }
    // A short read: what came is less than what was asked for.
    char tail[64];
    CHECK(ftruncate(fd, 10) == 0);
    CHECK(pread(fd, tail, sizeof tail, 3) == 7);
    EXPECT("pread64", 7, DATA(tail, 7));
    CHECK(close(fd) == 0);
    return 0;
}
