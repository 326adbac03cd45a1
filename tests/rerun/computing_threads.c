// Two threads that compute between calls, beside the first one. With an argument, under a filter that lets through
// what they and those who time them need, also in the image that it executes.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *compute(void *unused) {
    for (int round = 0; round < 20; round++) {
        for (volatile long i = 0; i < 1000000; i++) {}
        syscall(SYS_getppid);
    }
    return unused;
}

static int install_filter(void) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_reboot, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {4, steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

int main(int argc, char **argv) {
    int is_filtered = argc > 1 && strcmp(argv[1], "filtered") == 0;
    if (is_filtered && install_filter()) return 1;
    pthread_t one, other;
    if (pthread_create(&one, NULL, compute, NULL) || pthread_create(&other, NULL, compute, NULL)) return 1;
    pthread_join(one, NULL);
    pthread_join(other, NULL);
    if (is_filtered) execl(argv[0], argv[0], "again", NULL);
    return is_filtered;
}
