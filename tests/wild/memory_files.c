// Files in memory: memfds, seals, shared mappings, files without names.
#include "cases.h"
#include <sys/sendfile.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8
#endif

static int memory(unsigned flags) {
    int fd = memfd_create("memory", flags);
    CHECK(fd >= 0);
    return fd;
}

static void written_and_read(void) {
    char text[20] = "";
    int fd = memory(MFD_CLOEXEC);
    CHECK(write(fd, "hello memory", 12) == 12 && pread(fd, text, 20, 6) == 6);
    CHECK(strcmp(text, "memory") == 0 && ftruncate(fd, 5) == 0 && pread(fd, text, 20, 0) == 5);
    struct stat stat;
    CHECK(fstat(fd, &stat) == 0 && stat.st_size == 5 && stat.st_nlink == 0 && (stat.st_mode & 0777) == 0777);
    CHECK(fallocate(fd, 0, 0, 100000) == 0 && fstat(fd, &stat) == 0 && stat.st_size == 100000);
}

static void sealed(void) {
    int fd = memory(MFD_ALLOW_SEALING);
    CHECK(write(fd, "sealed", 6) == 6 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    FAILS(EPERM, ftruncate(fd, 3));
    CHECK(ftruncate(fd, 10) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_WRITE) == 0);
    FAILS(EPERM, write(fd, "x", 1));
    FAILS(EPERM, ftruncate(fd, 20));
    CHECK(mmap(NULL, 10, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EPERM);
    CHECK(fcntl(fd, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE));
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) == 0);
    FAILS(EPERM, fcntl(fd, F_ADD_SEALS, F_SEAL_GROW));
    int plain = memory(0);
    FAILS(EPERM, fcntl(plain, F_ADD_SEALS, F_SEAL_GROW));
}

static void not_sealed_while_mapped(void) {
    int fd = memory(MFD_ALLOW_SEALING);
    CHECK(ftruncate(fd, 4096) == 0);
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(page != MAP_FAILED);
    FAILS(EBUSY, fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    CHECK(munmap(page, 4096) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0);
}

static void reopened(void) {
    char path[40], text[10] = "";
    int fd = memory(0);
    CHECK(write(fd, "reopened", 8) == 8);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = open(path, O_RDONLY);
    CHECK(again >= 0 && read(again, text, 9) == 8 && strcmp(text, "reopened") == 0);
    FAILS(EBADF, write(again, "x", 1));
    int empty = open(path, O_RDWR | O_TRUNC);
    CHECK(empty >= 0 && pread(fd, text, 9, 0) == 0);
}

static void copied_to_file(void) {
    static char bytes[50000], found[50000];
    fill(bytes, sizeof bytes);
    int fd = memory(0), out = new_file("file", "");
    CHECK(write(fd, bytes, sizeof bytes) == sizeof bytes && lseek(fd, 0, SEEK_SET) == 0);
    CHECK(sendfile(out, fd, NULL, sizeof bytes) == sizeof bytes);
    CHECK(pread(out, found, sizeof found, 0) == sizeof found && memcmp(bytes, found, sizeof found) == 0);
}

static void passed_to_exec(void) {
    char path[40];
    int fd = memory(0);
    CHECK(write(fd, "the child reads it\n", 19) == 19 && lseek(fd, 0, SEEK_SET) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(dup2(fd, 0) == 0 && dup2(open("copy", O_WRONLY | O_CREAT, 0644), 1) == 1);
        execl("/bin/cat", "cat", (char *)NULL);
        _exit(1);
    }
    CHECK_CHILD(pid);
    must_hold("copy", "the child reads it\n");
    snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), fd);
    CHECK(access(path, R_OK) == 0 && lseek(fd, 0, SEEK_CUR) == 19);
}

static void run_from_memory(void) {
    static char bytes[1 << 20];
    int in = open("/bin/true", O_RDONLY), fd = memory(MFD_CLOEXEC);
    ssize_t len = read(in, bytes, sizeof bytes);
    CHECK(len > 0 && write(fd, bytes, (size_t)len) == len);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        fexecve(fd, (char *[]){"true", NULL}, (char *[]){NULL});
        _exit(1);
    }
    CHECK_CHILD(pid);
}

static void unlinked_file(void) {
    char text[10] = "", path[40];
    int fd = new_file("gone", "lives on");
    CHECK(unlink("gone") == 0 && pwrite(fd, "L", 1, 0) == 1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = open(path, O_RDWR);
    CHECK(again >= 0 && read(again, text, 9) == 8 && strcmp(text, "Lives on") == 0);
    CHECK(ftruncate(again, 5) == 0 && pread(fd, text, 9, 0) == 5);
    close(new_file("gone", "another"));
    CHECK(pread(fd, text, 9, 0) == 5);
}

static void shared_between(void) {
    int fd = memory(0);
    CHECK(ftruncate(fd, 8192) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        CHECK(page != MAP_FAILED);
        strcpy(page + 5000, "stored");
        _exit(0);
    }
    CHECK_CHILD(pid);
    char *page = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(page != MAP_FAILED && strcmp(page + 5000, "stored") == 0);
}

static void secret_and_wrong(void) {
    static char name[300];
    memset(name, 'n', 299);
    FAILS(EINVAL, memfd_create(name, 0));
    FAILS(EINVAL, memfd_create("x", 0x8000));
    name[249] = 0;
    CHECK(memfd_create(name, 0) >= 0);
    FAILS(EFAULT, memfd_create((char *)8, 0));
    int fd = memory(MFD_NOEXEC_SEAL);
    struct stat stat;
    CHECK(fstat(fd, &stat) == 0 && (stat.st_mode & 0777) == 0666);
    FAILS(EPERM, fchmod(fd, 0777));
}

CASES(
    {.name = "written_and_read", .function = written_and_read},
    {.name = "sealed", .function = sealed},
    {.name = "not_sealed_while_mapped", .function = not_sealed_while_mapped},
    {.name = "reopened", .function = reopened},
    {.name = "copied_to_file", .function = copied_to_file},
    {.name = "passed_to_exec", .function = passed_to_exec},
    {.name = "run_from_memory", .function = run_from_memory},
    {.name = "unlinked_file", .function = unlinked_file},
    {.name = "shared_between", .function = shared_between},
    {.name = "secret_and_wrong", .function = secret_and_wrong}, )
