// sendfile and copy_file_range, with the offsets that they move.
#include "expect.h"
#include <sys/sendfile.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    static char out[200000], in[200000];
    fill(out, sizeof out);
    int from = open("from", O_RDWR | O_CREAT | O_TRUNC, 0600);
    int to = open("to", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(from >= 0 && to >= 0);
    CHECK(write(from, out, sizeof out) == sizeof out);
    off_t at = 1000;
    CHECK(sendfile(to, from, &at, 50000) == 50000 && at == 51000);
    EXPECT("sendfile", 50000, DATA(&at, sizeof at));
    CHECK(lseek(from, 51000, SEEK_SET) == 51000);
    CHECK(sendfile(to, from, NULL, 9000) == 9000);
    EXPECT("sendfile", 9000);
    loff_t from_at = 60000, to_at = 59000;
    ssize_t copied = copy_file_range(from, &from_at, to, &to_at, 30000, 0);
    CHECK(copied > 0 && from_at == 60000 + copied && to_at == 59000 + copied);
    EXPECT("copy_file_range", copied, DATA(&from_at, sizeof from_at), DATA(&to_at, sizeof to_at));
    CHECK(copied == 30000);
    CHECK(pread(to, in, sizeof in, 0) == 89000);
    CHECK(memcmp(in, out + 1000, 89000) == 0);
    EXPECT("pread64", 89000, DATA(out + 1000, 89000));
    CHECK(copy_file_range(from, NULL, -1, NULL, 1, 0) == -1 && errno == EBADF);
    EXPECT_ERRNO("copy_file_range", EBADF);
    // A count below zero is refused, whatever is there.
    int null = open("/dev/null", O_WRONLY);
    at = 0;
    CHECK(null >= 0 && sendfile(null, from, &at, SIZE_MAX) == -1 && errno == EINVAL && at == 0);
    EXPECT_ERRNO("sendfile", EINVAL);
    CHECK(sendfile(to, from, &at, SIZE_MAX) == -1 && errno == EINVAL && at == 0);
    return 0;
}
