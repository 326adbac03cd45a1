// io_setup, io_submit and io_getevents.
#include "expect.h"
#include <linux/aio_abi.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    aio_context_t context = 0;
    CHECK(syscall(SYS_io_setup, 8, &context) == 0);
    EXPECT("io_setup", 0);
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    static char out[5000], in[5000];
    fill(out, sizeof out);
    struct iocb write_op = {.aio_fildes = (unsigned)fd, .aio_lio_opcode = IOCB_CMD_PWRITE,
                            .aio_buf = (uint64_t)out, .aio_nbytes = sizeof out};
    struct iocb *ops[1] = {&write_op};
    CHECK(syscall(SYS_io_submit, context, 1, ops) == 1);
    EXPECT("io_submit", 1);
    struct io_event done;
    CHECK(syscall(SYS_io_getevents, context, 1, 1, &done, NULL) == 1 && done.res == sizeof out);
    EXPECT("io_getevents", 1, DATA(&done, sizeof done));
    CHECK(pread(fd, in, sizeof in, 0) == sizeof in && memcmp(in, out, sizeof in) == 0);
    EXPECT("pread64", sizeof in, DATA(in, sizeof in));
    CHECK(syscall(SYS_io_destroy, context) == 0);
    EXPECT("io_destroy", 0);
    return 0;
}
