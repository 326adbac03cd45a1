// What a program sees of itself: descriptors, environment, masks, parent. It prints all of it, and
// the driver compares that with what an unrecorded run printed.
#include "expect.h"
#include <dirent.h>

enum { DESCRIPTORS = 4096 };
extern char **environ;

static void show_descriptors(void) {
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir);
    static int open_fds[DESCRIPTORS];
    for (struct dirent *entry; (entry = readdir(dir));) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] == '.') continue;
        CHECK(fd < DESCRIPTORS);
        open_fds[fd] = 1;
    }
    printf("descriptors:");
    for (int fd = 0; fd < DESCRIPTORS; fd++)
        if (open_fds[fd]) printf(" %d%s", fd, fcntl(fd, F_GETFD) & FD_CLOEXEC ? "c" : "");
    printf("\n");
    closedir(dir);
}

static void show_status(void) {
    static const char *const wanted[] = {"State",  "Ngid",   "TracerPid", "Threads", "SigPnd", "ShdPnd",
                                         "SigBlk", "SigCgt", "CapEff", "NoNewPrivs", "Seccomp:", "Groups"};
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status);
    char line[1000];
    while (fgets(line, sizeof line, status)) {
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
            if (strncmp(line, wanted[i], strlen(wanted[i])) == 0) printf("%s", line);
        // Without the two signals that the C library keeps for itself.
        unsigned long long mask;
        if (sscanf(line, "SigIgn: %llx", &mask) == 1) printf("SigIgn: %llx\n", mask & ~(3ull << 31));
        int pid, size;
        if (sscanf(line, "PPid: %d", &pid) == 1) CHECK(pid == getppid());
        // How many the parent had when it forked is in it, and is no sign of descriptors of others.
        if (sscanf(line, "FDSize: %d", &size) == 1) printf("FDSize: %s\n", size <= 256 ? "small" : line);
    }
    fclose(status);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    show_descriptors();
    for (char **variable = environ; *variable; variable++) printf("environ: %s\n", *variable);
    for (int i = 0; i < argc; i++) printf("argv[%d]: %s\n", i, i ? argv[i] : "(itself)");
    show_status();
    for (int signal = 1; signal < 65; signal++) {
        struct sigaction action;
        memset(&action, 0, sizeof action);
        if (signal == 32 || signal == 33) continue;
        CHECK(sigaction(signal, NULL, &action) == 0);
        if (action.sa_handler != SIG_DFL || action.sa_flags)
            printf("signal %d: handler %d flags %x\n", signal, action.sa_handler == SIG_IGN ? 1 : 2, action.sa_flags);
    }
    stack_t stack;
    CHECK(sigaltstack(NULL, &stack) == 0);
    printf("alternate stack: %d\n", stack.ss_flags);
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    CHECK(n > 0);
    path[n] = 0;
    printf("exe: %s\n", path);
    printf("same session as the parent: %d\n", getsid(0) == getsid(getppid()));
    printf("umask %o\n", umask(0));
    return 0;
}
