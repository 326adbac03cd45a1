// What differs from run to run: ids, clocks, random numbers, addresses, the order of a directory.
// flags: -static
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct timeval day;
    gettimeofday(&day, NULL);
    unsigned number;
    if (getrandom(&number, sizeof number, 0) != sizeof number) return 1;
    void *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory = mremap(memory, 1 << 20, 4 << 20, MREMAP_MAYMOVE);
    const unsigned char *bytes = (const unsigned char *)getauxval(AT_RANDOM);
    printf("%d of %d at %ld.%09ld %ld.%06ld %ld random %u %02x%02x\n", getpid(), getppid(), now.tv_sec,
           now.tv_nsec, day.tv_sec, day.tv_usec, time(NULL), number, bytes[0], bytes[15]);
    printf("memory %p heap %p stack %p %s\n", memory, malloc(100), (void *)&now, argc > 1 ? argv[1] : "");
    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *entry; dir && (entry = readdir(dir));) printf("%s ", entry->d_name);
    puts("");
    fprintf(stderr, "%d\n", getpid());
    return 7;
}
