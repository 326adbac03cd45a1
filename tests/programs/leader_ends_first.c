// flags: -pthread
// count: off
// The first thread ends; another goes on with the process.
#include "expect.h"
#include <pthread.h>

static pthread_t leader;

static void *rest(void *unused) {
    (void)unused;
    CHECK(pthread_join(leader, NULL) == 0);
    char bytes[1000];
    fill(bytes, sizeof bytes);
    int fd = open("file", O_RDWR | O_CREAT, 0600);
    CHECK(write(fd, bytes, sizeof bytes) == sizeof bytes);
    EXPECT("write", sizeof bytes, DATA(bytes, sizeof bytes));
    for (int i = 0; i < 100; i++) CHECK(syscall(SYS_getppid) > 0);
    EXPECT_COUNT("getppid", 100);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    CHECK_CHILD(pid);
    exit(5);
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    leader = pthread_self();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, rest, NULL) == 0);
    pthread_exit(NULL);
}
