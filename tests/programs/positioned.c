// pread and pwrite, with offsets beyond 4 GiB.
#include "expect.h"

int main(int argc, char **argv) {
    begin(argc, argv);
    int fd = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    static char out[20000], in[20000];
    for (int i = 0; i < 50; i++) {
        size_t len = random_len(sizeof out);
        off_t at = (off_t)(random_word() % 64) << 28;
        fill(out, len);
        CHECK(pwrite(fd, out, len, at) == (ssize_t)len);
        EXPECT("pwrite64", len, DATA(out, len));
        CHECK(pread(fd, in, len, at) == (ssize_t)len);
        CHECK(memcmp(in, out, len) == 0);
        EXPECT("pread64", len, DATA(in, len));
    }
    CHECK(unlink("data") == 0);
    return 0;
}
