// vmsplice to a pipe stores nothing: it may be given memory that cannot be written.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

static const char fixed[] = "cannot be written";

int main(void) {
    int ends[2];
    char room[sizeof fixed];
    struct iovec vector = {(void *)fixed, sizeof fixed};
    if (pipe(ends) || vmsplice(ends[1], &vector, 1, 0) != sizeof fixed) return 1;
    if (read(ends[0], room, sizeof room) != sizeof fixed) return 2;
    printf("%s\n", room);
    return 0;
}
