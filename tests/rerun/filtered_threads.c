// Threads of which one looks for what another one has stored, without a call, under a filter that kills who asks
// for the time, or for an area of restartable sequences (for which it has asked before, if at all); and again in
// the image that it executes.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile int is_done;

static void *look(void *unused) {
    while (!is_done) continue;
    puts("seen");
    return unused;
}

static void *compute(void *unused) {
    uint64_t value = 1;
    for (int i = 0; i < 100000000; i++) value = value * 6364136223846793005 + 1442695040888963407;
    printf("%016lx\n", value);
    is_done = 1;
    return unused;
}

static int install_filter(void) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rseq, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {5, steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

int main(int argc, char **argv) {
    int is_first = argc == 1;
    if (is_first && install_filter()) return 1;
    pthread_t threads[2];
    if (pthread_create(&threads[0], NULL, look, NULL) || pthread_create(&threads[1], NULL, compute, NULL)) return 1;
    for (int i = 0; i < 2; i++)
        if (pthread_join(threads[i], NULL)) return 1;
    if (!is_first) return 0;
    fflush(stdout);
    // Its C library is not to ask for such an area either.
    setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", 1);
    execl(argv[0], argv[0], "again", NULL);
    return 1;
}
