// Vectors: calls that take many pieces at once, whole, in part and wrong.
// flags: -Wno-stringop-overread -Wno-stringop-overflow
#include "cases.h"
#include <sys/uio.h>

static void many_pieces(void) {
    enum { PIECES = IOV_MAX };
    static char out[PIECES], in[PIECES];
    static struct iovec from[PIECES], to[PIECES];
    fill(out, sizeof out);
    for (int i = 0; i < PIECES; i++) {
        from[i] = (struct iovec){out + i, 1};
        to[i] = (struct iovec){in + i, 1};
    }
    int fd = new_file("file", "");
    CHECK(writev(fd, from, PIECES) == PIECES);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    CHECK(readv(fd, to, PIECES) == PIECES);
    CHECK(memcmp(in, out, sizeof in) == 0);
    FAILS(EINVAL, writev(fd, from, PIECES + 1));
    FAILS(EINVAL, readv(fd, to, -1));
}

static void empty_pieces(void) {
    int fd = new_file("file", "");
    struct iovec pieces[] = {{NULL, 0}, {"ab", 2}, {(void *)8, 0}, {"", 0}, {"cd", 2}, {NULL, 0}};
    CHECK(writev(fd, pieces, 6) == 4);
    CHECK(writev(fd, pieces, 1) == 0);
    CHECK(writev(fd, NULL, 0) == 0);
    must_hold("file", "abcd");
}

static void at_positions(void) {
    int fd = new_file("file", "0123456789");
    struct iovec pieces[] = {{"AB", 2}, {"C", 1}};
    CHECK(pwritev(fd, pieces, 2, 4) == 3);
    CHECK(lseek(fd, 0, SEEK_CUR) == 10);
    must_hold("file", "0123ABC789");
    char one[3] = "", two[4] = "";
    struct iovec into[] = {{one, 2}, {two, 3}};
    CHECK(preadv(fd, into, 2, 3) == 5 && strcmp(one, "3A") == 0 && strcmp(two, "BC7") == 0);
    CHECK(preadv(fd, into, 2, 8) == 2 && strcmp(one, "89") == 0);
    CHECK(preadv(fd, into, 2, 100) == 0);
    FAILS(EINVAL, preadv(fd, into, 2, -1));
}

static void with_flags(void) {
    int fd = new_file("file", "abc");
    struct iovec piece = {"def", 3};
    CHECK(pwritev2(fd, &piece, 1, -1, RWF_DSYNC) == 3);
    CHECK(pwritev2(fd, &piece, 1, 0, RWF_APPEND) == 3);
    must_hold("file", "abcdefdef");
    char text[10] = "";
    CHECK(preadv2(fd, &(struct iovec){text, 9}, 1, 0, 0) == 9 && strcmp(text, "abcdefdef") == 0);
    FAILS(EOPNOTSUPP, preadv2(fd, &(struct iovec){text, 9}, 1, 0, 1 << 30));
}

static void ends_at_bad_piece(void) {
    int fds[2];
    CHECK(pipe(fds) == 0);
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && munmap(page + 4096, 4096) == 0);
    memset(page, 'x', 4096);
    struct iovec pieces[] = {{"first", 5}, {page + 4096, 5}, {"third", 5}};
    int fd = new_file("file", "");
    CHECK(writev(fd, pieces, 3) == 5);
    must_hold("file", "first");
    FAILS(EFAULT, writev(fd, pieces + 1, 2));
    FAILS(EFAULT, writev(fd, (struct iovec *)(page + 4096), 2));
    FAILS(EINVAL, writev(fd, (struct iovec[]){{"a", 1}, {"b", (size_t)-1}}, 2));
}

static void from_another_process(void) {
    static char theirs[64], ours[64];
    int ready[2], go[2];
    CHECK(pipe(ready) == 0 && pipe(go) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        strcpy(theirs, "what the child holds");
        char byte;
        CHECK(write(ready[1], "r", 1) == 1 && read(go[0], &byte, 1) == 1);
        CHECK(strcmp(theirs + 40, "written into it") == 0);
        _exit(0);
    }
    char byte;
    CHECK(read(ready[0], &byte, 1) == 1);
    struct iovec local[] = {{ours, 4}, {ours + 4, 17}}, remote = {theirs, 21};
    CHECK(process_vm_readv(pid, local, 2, &remote, 1, 0) == 21);
    CHECK(strcmp(ours, "what the child holds") == 0);
    CHECK(process_vm_writev(pid, &(struct iovec){"written into it", 16}, 1, &(struct iovec){theirs + 40, 16}, 1, 0) == 16);
    FAILS(EFAULT, process_vm_readv(pid, local, 2, &(struct iovec){(void *)8, 4}, 1, 0));
    CHECK(write(go[1], "g", 1) == 1);
    CHECK_CHILD(pid);
    FAILS(ESRCH, process_vm_readv(pid, local, 2, &remote, 1, 0));
}

static void mapped_by_pieces(void) {
    int fds[2];
    CHECK(pipe(fds) == 0);
    struct iovec pieces[] = {{"one ", 4}, {"two ", 4}, {"three", 5}};
    CHECK(vmsplice(fds[1], pieces, 3, 0) == 13);
    char text[20] = "", more[20] = "";
    CHECK(read(fds[0], text, 4) == 4 && strcmp(text, "one ") == 0);
    CHECK(readv(fds[0], (struct iovec[]){{text, 6}, {more, 9}}, 2) == 9);
    CHECK(memcmp(text, "two th", 6) == 0 && strcmp(more, "ree") == 0);
}

static void same_buffer_twice(void) {
    int fd = new_file("file", "abcdef");
    char text[4] = "....";
    CHECK(preadv(fd, (struct iovec[]){{text, 3}, {text, 3}}, 2, 0) == 6);
    CHECK(memcmp(text, "def.", 4) == 0);
    CHECK(pwritev(fd, (struct iovec[]){{text, 2}, {text, 2}, {text + 1, 1}}, 3, 0) == 5);
    must_hold("file", "dedeef");
}

static void big_and_odd(void) {
    enum { SIZE = 3 << 20 };
    char *out = malloc(SIZE), *in = malloc(SIZE);
    CHECK(out && in);
    fill(out, SIZE);
    int fd = new_file("file", "");
    CHECK(writev(fd, (struct iovec[]){{out, 1}, {out + 1, SIZE / 2 - 3}, {out + SIZE / 2 - 2, SIZE / 2 + 2}}, 3) == SIZE);
    CHECK(preadv(fd, (struct iovec[]){{in, 12345}, {in + 12345, SIZE - 12345}}, 2, 0) == SIZE);
    CHECK(memcmp(in, out, SIZE) == 0);
}

static void wrong_directions(void) {
    char byte = 'b';
    struct iovec piece = {&byte, 1};
    int in = new_file("file", "x"), fds[2];
    close(in);
    CHECK((in = open("file", O_RDONLY)) >= 0 && pipe(fds) == 0);
    FAILS(EBADF, writev(in, &piece, 1));
    FAILS(EBADF, readv(fds[1], &piece, 1));
    FAILS(EBADF, writev(99, &piece, 1));
    FAILS(ESPIPE, preadv(fds[0], &piece, 1, 0));
    int dir = open(".", O_RDONLY | O_DIRECTORY);
    FAILS(EISDIR, readv(dir, &piece, 1));
}

CASES(
    {.name = "many_pieces", .function = many_pieces},
    {.name = "empty_pieces", .function = empty_pieces},
    {.name = "at_positions", .function = at_positions},
    {.name = "with_flags", .function = with_flags},
    {.name = "ends_at_bad_piece", .function = ends_at_bad_piece},
    {.name = "from_another_process", .function = from_another_process},
    {.name = "mapped_by_pieces", .function = mapped_by_pieces},
    {.name = "same_buffer_twice", .function = same_buffer_twice},
    {.name = "big_and_odd", .function = big_and_odd},
    {.name = "wrong_directions", .function = wrong_directions}, )
