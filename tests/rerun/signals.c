// Signals that meet calls: 10,000 that the program sends itself, timers that interrupt waits, and
// children that end.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t counts[65];
static volatile int last_code, last_pid;

static void note(int signal, siginfo_t *info, void *context) {
    (void)context;
    counts[signal]++;
    last_code = info->si_code;
    last_pid = info->si_pid;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGCHLD, &action, NULL);
    action.sa_flags |= SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    for (int i = 0; i < 10000; i++) kill(getpid(), SIGUSR1);
    printf("%d by %s, code %d\n", counts[SIGUSR1], last_pid == getpid() ? "itself" : "another", last_code);

    struct itimerval often = {{0, 2000}, {0, 2000}};
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 20; i++) pause();
    sigset_t alarm_only, before;
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm_only, &before);
    for (int i = 0; i < 20; i++) sigsuspend(&before);
    struct timespec second = {1, 0};
    for (int i = 0; i < 20; i++) ppoll(NULL, 0, &second, &before);
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    printf("%s ticks\n", counts[SIGALRM] >= 60 ? "enough" : "few");
    sigprocmask(SIG_SETMASK, &before, NULL);

    int ends[2];
    if (pipe(ends) != 0) return 1;
    pid_t child = fork();
    if (child == 0) {
        // The maker waits in a read that is begun again after the handler.
        usleep(20000);
        kill(getppid(), SIGALRM);
        usleep(20000);
        if (write(ends[1], "x", 1) != 1) _exit(1);
        _exit(4);
    }
    char byte;
    ssize_t n = read(ends[0], &byte, 1);
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    printf("read %zd, child ended with %d, %d children told, by %s\n", n, WEXITSTATUS(status),
           counts[SIGCHLD], last_pid == child ? "it" : "another");
    return 0;
}
