// A file that is mapped, to which the kernel copies bytes of another one: no call carries them. With an
// argument: a part of a file that is mapped, and then shown further.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <unistd.h>

static int shown_further(int fd, const char *bytes) {
    for (int i = 0; i < 2; i++)
        if (write(fd, bytes, 4096) != 4096) return 1;
    unsigned char *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED || (at = mremap(at, 4096, 8192, MREMAP_MAYMOVE)) == MAP_FAILED) return 1;
    printf("%d %d\n", at[0], at[4096] * 256 + at[4097]);
    return 0;
}

int main(int argc, char **argv) {
    (void)argv;
    char bytes[4096];
    int from = open("from", O_RDWR | O_CREAT | O_TRUNC, 0644), to = open("to", O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (from < 0 || to < 0 || getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return 1;
    if (argc > 1) return shown_further(to, bytes);
    if (write(from, bytes, sizeof bytes) != sizeof bytes || ftruncate(to, 4096) != 0) return 1;
    unsigned char *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, to, 0);
    if (at == MAP_FAILED || sendfile(to, from, &(off_t){0}, 4096) != 4096) return 1;
    unsigned sum = 0;
    for (int i = 0; i < 4096; i++) sum = sum * 31 + at[i];
    printf("%u\n", sum);
    return 0;
}
