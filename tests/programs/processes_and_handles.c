// Process descriptors, memory of other processes, file handles, and numbers without a meaning.
#include "expect.h"
#include <sys/uio.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#define SYS_pidfd_send_signal 424
#endif

int main(int argc, char **argv) {
    begin(argc, argv);
    static char out[6000], in[6000];
    fill(out, sizeof out);
    struct iovec local[2] = {{in, 1000}, {in + 1000, 5000}}, remote = {out, sizeof out};
    CHECK(process_vm_readv(getpid(), local, 2, &remote, 1, 0) == sizeof out);
    CHECK(memcmp(in, out, sizeof out) == 0);
    EXPECT("process_vm_readv", sizeof out, DATA(out, sizeof out));
    fill(in, sizeof in);
    CHECK(process_vm_writev(getpid(), local, 2, &remote, 1, 0) == sizeof out);
    EXPECT("process_vm_writev", sizeof in, DATA(in, sizeof in));
    int ready[2];
    CHECK(pipe(ready) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(write(ready[1], "r", 1) == 1);
        for (;;) continue;
    }
    char byte;
    CHECK(pid > 0 && read(ready[0], &byte, 1) == 1);
    int child = (int)syscall(SYS_pidfd_open, pid, 0);
    CHECK(child >= 0);
    EXPECT("pidfd_open", child);
    CHECK(syscall(SYS_pidfd_send_signal, child, SIGTERM, NULL, 0) == 0);
    EXPECT("pidfd_send_signal", 0, TEXT("SIGTERM"));
    int status = wait_for(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    CHECK(close(creat("file", 0600)) == 0);
    union {
        struct file_handle handle;
        char room[sizeof(struct file_handle) + 128];
    } handle = {.handle.handle_bytes = 128};
    int mount;
    if (name_to_handle_at(AT_FDCWD, "file", &handle.handle, &mount, 0) == 0)
        EXPECT("name_to_handle_at", 0, DATA(&handle, sizeof(struct file_handle) + handle.handle.handle_bytes),
               DATA(&mount, sizeof mount));
    CHECK(syscall(510, 1, 2, 3, 4, 5, 6) == -1 && errno == ENOSYS);
    EXPECT_ERRNO("syscall_510", ENOSYS);
    CHECK(syscall(3000, 1, 2, 3, 4, 5, 6) == -1 && errno == ENOSYS);
    EXPECT_ERRNO("syscall_3000", ENOSYS);
    return 0;
}
