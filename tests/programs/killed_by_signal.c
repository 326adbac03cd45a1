// A program that ends by a signal that it sends to itself: whoever waits for it sees that signal.
#include "expect.h"

int main(int argc, char **argv) {
    begin(argc, argv);
    const int signals[] = {SIGTERM, SIGKILL, SIGSEGV, SIGHUP, SIGABRT, SIGRTMIN};
    for (int i = 0; i < 6; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            if (signals[i] == SIGABRT) abort();
            if (signals[i] == SIGSEGV) *(volatile int *)strtoul("16", NULL, 10) = 1;
            raise(signals[i]);
            _exit(0);
        }
        int status = wait_for(pid);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == signals[i]);
    }
    printf("now ourselves\n");
    fflush(stdout);
    raise(SIGTERM);
    return 0;
}
