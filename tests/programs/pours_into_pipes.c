// Bytes that calls move from what is no file into pipes and files, and from pipes to what is none: whoever
// waits for them gets them.
#include "expect.h"
#include <sys/sendfile.h>
#include <sys/socket.h>

enum { PIPES = 600, ROOM = 65536 };

int main(int argc, char **argv) {
    begin(argc, argv);
    static char big[ROOM];
    char got[200];
    int ends[2], pair[2];
    CHECK(pipe(ends) == 0);
    int version = open("/proc/version", O_RDONLY);
    CHECK(version >= 0);
    long len = splice(version, NULL, ends[1], NULL, 10, 0);
    CHECK(len == 10 && read(ends[0], got, sizeof got) == 10);
    len = sendfile(ends[1], version, NULL, 10);
    CHECK(len == 10 && read(ends[0], got, sizeof got) == 10);
    // On to a file, which then holds what no call told.
    off_t at = 2;
    CHECK(sendfile(ends[1], version, &at, 5) == 5 && at == 7);
    int file = open("file", O_RDWR | O_CREAT, 0600);
    CHECK(file >= 0 && splice(ends[0], NULL, file, NULL, 5, 0) == 5);
    CHECK(sendfile(file, version, NULL, 8) == 8);
    CHECK(lseek(file, 0, SEEK_CUR) == 13 && pread(file, got, 13, 0) == 13);

    // From pipes and files to a socket that is not there: they go on all the same.
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(listening >= 0 && listen(listening, 1) == 0);
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    CHECK(getsockname(listening, (struct sockaddr *)&address, &size) == 0);
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(pair[0], (struct sockaddr *)&address, size) == 0);
    pair[1] = accept(listening, NULL, NULL);
    CHECK(pair[1] >= 0);
    CHECK(write(ends[1], "hello world", 11) == 11);
    CHECK(splice(ends[0], NULL, pair[0], NULL, 5, 0) == 5);
    CHECK(read(ends[0], got, sizeof got) == 6 && memcmp(got, " world", 6) == 0);
    EXPECT("read", 6, DATA(" world", 6));
    CHECK(lseek(file, 0, SEEK_SET) == 0 && write(file, "0123456789", 10) == 10);
    CHECK(lseek(file, 2, SEEK_SET) == 2);
    CHECK(sendfile(pair[0], file, NULL, 3) == 3);
    CHECK(read(file, got, 3) == 3 && memcmp(got, "567", 3) == 0);
    CHECK(recv(pair[1], got, 8, MSG_WAITALL) == 8 && memcmp(got, "hello234", 8) == 0);
    // And from there into the pipe.
    CHECK(send(pair[0], "again", 5, 0) == 5);
    CHECK(splice(pair[1], NULL, ends[1], NULL, 5, 0) == 5 && read(ends[0], got, 200) == 5);
    // More than a pipe holds, while somebody reads.
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(close(ends[1]) == 0);
        long sum = 0, more;
        while ((more = read(ends[0], big, sizeof big)) > 0) sum += more;
        CHECK(sum == 4 * ROOM);
        _exit(0);
    }
    CHECK(close(ends[0]) == 0);
    for (int sent = 0; sent < 4 * ROOM;) {
        long part = send(pair[0], big, ROOM / 2, 0);
        CHECK(part > 0);
        for (long left = part; left > 0;) {
            long moved = splice(pair[1], NULL, ends[1], NULL, left, 0);
            CHECK(moved > 0);
            left -= moved;
        }
        sent += part;
    }
    CHECK(close(ends[1]) == 0);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);

    // As many pipes as the kernel gives an ordinary user all the room that he wants, and more: each holds
    // what it held.
    static int many[PIPES][2];
    memset(big, 'x', sizeof big);
    int made = 0;
    while (made < PIPES && pipe(many[made]) == 0) made++;
    CHECK(made > 100);
    for (int i = 0; i < made; i += made / 10) {
        long room = fcntl(many[i][1], F_GETPIPE_SZ);
        CHECK(room >= 4096 && write(many[i][1], big, room) == room);
        CHECK(read(many[i][0], big, room) == room);
    }
    return 0;
}
