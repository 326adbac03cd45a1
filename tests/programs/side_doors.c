// flags: -pthread
// count: off
// Data that goes past reads and writes: memory lent to a pipe and to sockets and changed afterwards,
// another process's memory with a file mapped there, descriptors taken from another process.
#include "expect.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { LEN = 4096 };

#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif
#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY 0x4000000
#endif

// What the pipe is given is what is read from it, whatever it was when it was given.
static void lent_to_a_pipe(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    char *out = aligned_alloc(LEN, LEN);
    static char in[LEN];
    fill(out, LEN);
    struct iovec part = {out, LEN};
    CHECK(vmsplice(ends[1], &part, 1, 0) == LEN);
    EXPECT("vmsplice", LEN, DATA(out, LEN));
    fill(out, LEN);
    CHECK(read(ends[0], in, LEN) == LEN && memcmp(in, out, LEN) == 0);
    EXPECT("read", LEN, DATA(in, LEN));
    // Taken out of the pipe, nothing is lent.
    CHECK(write(ends[1], in, 100) == 100);
    part.iov_len = 100;
    CHECK(vmsplice(ends[0], &part, 1, 0) == 100);
    EXPECT("vmsplice", 100, DATA(in, 100));
    close(ends[0]);
    close(ends[1]);
}

static void lent_to_a_socket(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int one = 1, server = socket(AF_INET, SOCK_DGRAM, 0), client = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(server >= 0 && client >= 0);
    if (bind(server, (void *)&at, sizeof at) != 0) return; // No network here.
    CHECK(getsockname(server, (void *)&at, &length) == 0);
    if (setsockopt(client, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one) != 0) return;
    static char out[LEN], in[LEN];
    fill(out, LEN);
    CHECK(sendto(client, out, LEN, MSG_ZEROCOPY, (void *)&at, sizeof at) == LEN);
    EXPECT("sendto", LEN, DATA(out, LEN));
    struct pollfd there = {.fd = server, .events = POLLIN};
    CHECK(poll(&there, 1, 10000) == 1 && recv(server, in, LEN, 0) == LEN);
    EXPECT("recvfrom", LEN, DATA(in, LEN));
    close(server);
    close(client);
}

// Bytes go to and come from a file that the other one has mapped.
static void anothers_memory(int fd) {
    char *shared = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(shared != MAP_FAILED);
    memset(shared, 'a', LEN);
    int go[2], ready[2];
    char word;
    CHECK(pipe(go) == 0 && pipe(ready) == 0);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(go[1]);
        CHECK(write(ready[1], "x", 1) == 1 && read(go[0], &word, 1) == 0);
        _exit(shared[10] != 'a');
    }
    CHECK(read(ready[0], &word, 1) == 1);
    static char out[100], in[100];
    fill(out, sizeof out);
    struct iovec mine = {out, sizeof out}, theirs = {shared + LEN / 2, sizeof out};
    CHECK(process_vm_writev(pid, &mine, 1, &theirs, 1, 0) == sizeof out);
    EXPECT("process_vm_writev", sizeof out, DATA(out, sizeof out));
    mine.iov_base = in;
    CHECK(process_vm_readv(pid, &mine, 1, &theirs, 1, 0) == sizeof in);
    CHECK(memcmp(in, out, sizeof in) == 0 && memcmp(shared + LEN / 2, out, sizeof out) == 0);
    EXPECT("process_vm_readv", sizeof in, DATA(in, sizeof in));
    close(go[0]);
    close(go[1]);
    close(ready[0]);
    close(ready[1]);
    CHECK_CHILD(pid);
    CHECK(munmap(shared, LEN) == 0);
}

// A descriptor that only the child has.
static void anothers_file(void) {
    int go[2], told[2];
    CHECK(pipe(go) == 0 && pipe(told) == 0);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        char word;
        close(go[1]);
        int own = open("theirs", O_RDWR | O_CREAT | O_TRUNC, 0600);
        CHECK(own >= 0 && prctl(PR_SET_DUMPABLE, 1) == 0 && write(told[1], &own, sizeof own) == sizeof own);
        CHECK(read(go[0], &word, 1) == 0);
        _exit(0);
    }
    int theirs, pidfd = syscall(SYS_pidfd_open, pid, 0);
    CHECK(pidfd >= 0 && read(told[0], &theirs, sizeof theirs) == sizeof theirs);
    int taken = syscall(SYS_pidfd_getfd, pidfd, theirs, 0);
    if (taken >= 0) {
        static char out[777];
        fill(out, sizeof out);
        CHECK(write(taken, out, sizeof out) == sizeof out);
        EXPECT("write", sizeof out, DATA(out, sizeof out));
        close(taken);
    }
    close(go[0]);
    close(go[1]);
    CHECK_CHILD(pid);
    close(pidfd);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    lent_to_a_pipe();
    lent_to_a_socket();
    int fd = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, LEN) == 0);
    anothers_memory(fd);
    anothers_file();
    return 0;
}
