// The common ioctls: terminals, files, pipes, and one that nobody knows.
#include "expect.h"
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <termios.h>

static void terminal(void) {
    int pty = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    CHECK(pty >= 0);
    struct winsize size = {.ws_row = (unsigned short)random_len(200), .ws_col = (unsigned short)random_len(300)}, got;
    CHECK(ioctl(pty, TIOCSWINSZ, &size) == 0);
    EXPECT("ioctl", 0, DATA(&size, sizeof size), TEXT("TIOCSWINSZ"));
    CHECK(ioctl(pty, TIOCGWINSZ, &got) == 0 && memcmp(&got, &size, sizeof size) == 0);
    EXPECT("ioctl", 0, DATA(&got, sizeof got), TEXT("TIOCGWINSZ"));
    // The kernel's struct termios is shorter than the C library's.
    char raw[36];
    CHECK(syscall(SYS_ioctl, pty, TCGETS, raw) == 0);
    EXPECT("ioctl", 0, DATA(raw, sizeof raw), TEXT("TCGETS"));
    unsigned number;
    CHECK(ioctl(pty, TIOCGPTN, &number) == 0);
    EXPECT("ioctl", 0, DATA(&number, sizeof number), TEXT("TIOCGPTN"));
}

int main(int argc, char **argv) {
    begin(argc, argv);
    terminal();
    int ends[2], waiting, len = (int)random_len(4000);
    char bytes[4000];
    fill(bytes, sizeof bytes);
    CHECK(pipe(ends) == 0 && write(ends[1], bytes, (size_t)len) == len);
    CHECK(ioctl(ends[0], FIONREAD, &waiting) == 0 && waiting == len);
    EXPECT("ioctl", 0, DATA(&waiting, sizeof waiting), TEXT("FIONREAD"));
    CHECK(ioctl(ends[0], FIOCLEX) == 0 && fcntl(ends[0], F_GETFD) == FD_CLOEXEC);
    EXPECT("ioctl", 0, TEXT("FIOCLEX"));
    int yes = 1;
    CHECK(ioctl(ends[0], FIONBIO, &yes) == 0);
    EXPECT("ioctl", 0, DATA(&yes, sizeof yes), TEXT("FIONBIO"));
    int fd = open("file", O_RDWR | O_CREAT, 0600), other = open("other", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && other >= 0 && pwrite(fd, bytes, 4000, 100000) == 4000 && fsync(fd) == 0);
    // Whether a file system has these is its own affair; either way the call is recorded.
    int flags = 0;
    if (ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0)
        EXPECT("ioctl", 0, DATA(&flags, sizeof flags), TEXT("FS_IOC_GETFLAGS"));
    struct {
        struct fiemap head;
        struct fiemap_extent extents[4];
    } map = {.head = {.fm_length = ~0ull, .fm_extent_count = 4}};
    if (ioctl(fd, FS_IOC_FIEMAP, &map) == 0) EXPECT("ioctl", 0, DATA(&map, sizeof map), TEXT("FS_IOC_FIEMAP"));
    if (ioctl(other, FICLONE, fd) < 0) {
        CHECK(errno == EOPNOTSUPP || errno == EINVAL || errno == ENOTTY);
        expect_line("ioctl", ANY, strerrorname_np(errno), (struct piece[]){TEXT("FICLONE"), {0}});
    }
    struct file_clone_range range = {.src_fd = fd, .src_length = 4096};
    long cloned = ioctl(other, FICLONERANGE, &range);
    expect_line("ioctl", cloned ? ANY : 0, cloned ? strerrorname_np(errno) : NULL,
                (struct piece[]){DATA(&range, sizeof range), TEXT("FICLONERANGE"), {0}});
    CHECK(ioctl(fd, _IOWR('!', 77, int), &flags) == -1 && errno == ENOTTY);
    EXPECT_ERRNO("ioctl", ENOTTY);
    return 0;
}
