// count: off
// needs: userns
// A new IPC namespace: the process, its children, and all that they execute there are recorded.
// What is executed has no descriptor and no memory that it would not have otherwise.
#include "expect.h"
#include <dirent.h>
#include <sched.h>
#include <sys/shm.h>

static void show_descriptors(void) {
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir);
    unsigned long open_fds = 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.') open_fds |= 1ul << atoi(entry->d_name);
    closedir(dir);
    printf("descriptors in the new image: %lx\n", open_fds);
}

// The new image: with a segment of its own namespace, a child, and another image.
static int inside(const char *name) {
    show_descriptors();
    char *segment = shmat(atoi(name), NULL, 0);
    CHECK(segment != (char *)-1 && strcmp(segment, "here") == 0);
    for (int i = 0; i < 100; i++) CHECK(syscall(SYS_getpgid, 0) >= 0);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", "echo from the new image > by-image; /bin/true; cat by-image | wc -c", NULL);
        _exit(1);
    }
    CHECK_CHILD(pid);
    return 0;
}

static void execute(char **argv, const char *segment) {
    fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        execl("/proc/self/exe", argv[0], argv[1], segment, NULL);
        _exit(1);
    }
    CHECK_CHILD(pid);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    if (argc > 2) return inside(argv[2]);
    char bytes[3000];
    fill(bytes, sizeof bytes);
    int outside = open("/proc/self/ns/ipc", O_RDONLY | O_CLOEXEC);
    CHECK(outside >= 0);
    char first[20], second[20];
    int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    CHECK(id >= 0);
    char *segment = shmat(id, NULL, 0);
    strcpy(segment, "here");
    // It stays for as long as it is attached; who cannot come back could not remove it later.
    CHECK(shmctl(id, IPC_RMID, NULL) == 0);
    snprintf(first, sizeof first, "%d", id);

    int unprivileged = geteuid() != 0;
    CHECK(unshare(unprivileged ? CLONE_NEWIPC | CLONE_NEWUSER : CLONE_NEWIPC) == 0);
    EXPECT("unshare", 0, TEXT("CLONE_NEWIPC"));
    CHECK(shmat(id, NULL, 0) == (void *)-1);
    int other = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    CHECK(other >= 0);
    strcpy(shmat(other, NULL, 0), "here");
    snprintf(second, sizeof second, "%d", other);

    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        int fd = open("by-child", O_RDWR | O_CREAT | O_TRUNC, 0600);
        CHECK(fd >= 0 && write(fd, bytes, sizeof bytes) == sizeof bytes);
        for (int i = 0; i < 100; i++) CHECK(syscall(SYS_getpgid, 0) >= 0);
        CHECK(close(fd) == 0);
        execl("/bin/sh", "sh", "-c", "echo of the shell > by-shell; exec /bin/true", NULL);
        _exit(1);
    }
    CHECK_CHILD(pid);
    for (int i = 0; i < 3; i++) execute(argv, second);
    shmctl(other, IPC_RMID, NULL);

    // And back.
    int images = 3;
    if (!unprivileged) {
        CHECK(setns(outside, CLONE_NEWIPC) == 0);
        execute(argv, first);
        images++;
    }
    EXPECT("write", sizeof bytes, DATA(bytes, sizeof bytes));
    EXPECT("write", 13, DATA("of the shell\n", 13));
    for (int i = 0; i < images; i++) EXPECT("write", 19, DATA("from the new image\n", 19));
    EXPECT_COUNT("getpgid", 100 + 100 * images);
    return 0;
}
