// A filter that has nothing against what a recording needs changes nothing, also not in the image that is executed.
#include "expect.h"
#include "filter.h"
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/sem.h>

enum { MUCH = 64 << 10 };

// Memory is locked: the program's alone.
static void lock(void) {
    char text[4096], *at;
    CHECK(mlockall(MCL_CURRENT | MCL_ONFAULT) == 0);
    int fd = open("/proc/self/status", O_RDONLY);
    CHECK(fd >= 0);
    ssize_t len = read(fd, text, sizeof text - 1);
    CHECK(len > 0 && close(fd) == 0);
    text[len] = 0;
    CHECK((at = strstr(text, "VmLck:")) && atol(at + 6) > 1000 && atol(at + 6) < MUCH);
    CHECK(munlockall() == 0);
}

// How many numbers are set, the set alone says.
static void set_all(void) {
    int set = semget(IPC_PRIVATE, 3, IPC_CREAT | 0600);
    unsigned short values[3] = {5, 6, 7};
    CHECK(set >= 0 && semctl(set, 0, SETALL, values) == 0);
    EXPECT("semctl", 0, TEXT("SETALL"), DATA(values, sizeof values));
    CHECK(semctl(set, 0, IPC_RMID) == 0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    int is_first = argc <= 2;
    if (is_first) INSTALL(ANSWER(SYS_reboot, SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW));
    lock();
    set_all();
    if (!is_first) return 0;
    fflush(stdout);
    execl("/proc/self/exe", argv[0], argv[1], "again", NULL);
    return 1;
}
