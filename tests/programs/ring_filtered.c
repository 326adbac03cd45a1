// io_uring: rings of programs with seccomp filters. What a filter lets through is captured; one that
// would kill for what capturing takes, or comes when the ring is there, changes nothing.
// count: off
#include "expect.h"
#include "ring.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#define BLOCK 4096

static char out[BLOCK], in[BLOCK];

// From here on, each of these calls gets this.
static void filter(uint32_t verdict, const int *calls, unsigned count) {
    struct sock_filter code[16] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)};
    unsigned at = 1;
    for (unsigned i = 0; i < count; i++)
        code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i], (uint8_t)(count - i), 0);
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict);
    struct sock_fprog program = {(unsigned short)at, code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
}

static void moves(struct ring *ring, int is_seen) {
    int file = open("filtered", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0);
    for (int i = 0; i < 10; i++) {
        fill(out, BLOCK);
        next(ring, IORING_OP_WRITE, file, out, BLOCK, 0);
        CHECK(one(ring, NULL) == BLOCK);
        next(ring, IORING_OP_READ, file, in, BLOCK, 0);
        CHECK(one(ring, NULL) == BLOCK && memcmp(in, out, BLOCK) == 0);
        if (is_seen) {
            EXPECT("io_uring:WRITE", BLOCK, DATA(out, BLOCK));
            EXPECT("io_uring:READ", BLOCK, DATA(in, BLOCK));
        }
    }
    close(file);
}

// Forbids what this has nothing to do with.
static void harmless(void) {
    struct ring ring;
    filter(SECCOMP_RET_KILL_PROCESS, (int[]){SYS_acct, SYS_swapon, SYS_reboot}, 3);
    if (!has_rings(&ring, 8, 0)) return;
    moves(&ring, 1);
    end(&ring);
}

// Some errors can be done without.
static void refusing(void) {
    struct ring ring;
    filter(SECCOMP_RET_ERRNO | EPERM, (int[]){SYS_kcmp, SYS_timer_create, SYS_timer_settime}, 3);
    if (!has_rings(&ring, 8, 0)) return;
    moves(&ring, 1);
    end(&ring);
}

static const int needed[] = {SYS_timer_create, SYS_timer_settime, SYS_timer_delete, SYS_kcmp, SYS_mremap};

// Kills for what is needed: the ring is left alone.
static void killing(void) {
    struct ring ring;
    filter(SECCOMP_RET_KILL_PROCESS, needed, 5);
    if (!has_rings(&ring, 8, 0)) return;
    moves(&ring, 0);
    end(&ring);
}

// The same, when the ring is there and was used.
static void later(void) {
    struct ring ring;
    if (!has_rings(&ring, 8, 0)) return;
    moves(&ring, 1);
    filter(SECCOMP_RET_KILL_PROCESS, needed, 5);
    moves(&ring, 1);
    CHECK(fcntl(dup(ring.fd), F_GETFD) >= 0);
    end(&ring);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    run_case("harmless", harmless);
    run_case("refusing", refusing);
    run_case("killing", killing);
    run_case("later", later);
    return 0;
}
