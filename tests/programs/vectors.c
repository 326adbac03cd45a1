// readv, writev and their positioned relatives, empty elements included.
#include "expect.h"
#include <sys/uio.h>

enum { ELEMENTS = 9 };
static char out[60000], in[60000];
static struct iovec vector[ELEMENTS];

static size_t cut_up(char *bytes) {
    size_t at = 0;
    for (int i = 0; i < ELEMENTS; i++) {
        size_t len = i == 3 ? 0 : random_len(6000);
        vector[i] = (struct iovec){bytes + at, len};
        at += len;
    }
    return at;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    int fd = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    for (int round = 0; round < 10; round++) {
        uint64_t cuts = random_word();
        random_state = cuts;
        size_t len = cut_up(out);
        fill(out, len);
        off_t at = (off_t)(random_word() % 100000);
        CHECK(lseek(fd, at, SEEK_SET) == at);
        uint64_t after = random_state;
        switch (round % 3) {
        case 0:
            CHECK(writev(fd, vector, ELEMENTS) == (ssize_t)len);
            EXPECT("writev", len, DATA(out, len));
            break;
        case 1:
            CHECK(pwritev(fd, vector, ELEMENTS, at) == (ssize_t)len);
            EXPECT("pwritev", len, DATA(out, len));
            break;
        default:
            CHECK(syscall(SYS_pwritev2, fd, vector, ELEMENTS, at, 0, RWF_DSYNC) == (long)len);
            EXPECT("pwritev2", len, DATA(out, len), TEXT("RWF_DSYNC"));
        }
        random_state = cuts;
        cut_up(in);
        CHECK(lseek(fd, at, SEEK_SET) == at);
        memset(in, 0, sizeof in);
        switch (round % 3) {
        case 0:
            CHECK(readv(fd, vector, ELEMENTS) == (ssize_t)len);
            EXPECT("readv", len, DATA(out, len));
            break;
        case 1:
            CHECK(preadv(fd, vector, ELEMENTS, at) == (ssize_t)len);
            EXPECT("preadv", len, DATA(out, len));
            break;
        default:
            CHECK(syscall(SYS_preadv2, fd, vector, ELEMENTS, at, 0, 0) == (long)len);
            EXPECT("preadv2", len, DATA(out, len));
        }
        CHECK(memcmp(in, out, len) == 0);
        random_state = after;
    }
    // The file ends within the second element.
    CHECK(ftruncate(fd, 100) == 0);
    struct iovec two[2] = {{in, 60}, {in + 60, 60}};
    CHECK(preadv(fd, two, 2, 0) == 100);
    EXPECT("preadv", 100, DATA(in, 100));
    CHECK(writev(fd, vector, 0) == 0);
    CHECK(syscall(SYS_writev, fd, vector, -1) == -1 && errno == EINVAL);
    EXPECT_ERRNO("writev", EINVAL);
    return 0;
}
