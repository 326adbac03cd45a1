// silent_files HOW: a file system of this program's own, which stops to answer. In a mount namespace
// of its own, as its root.
//   execute  a program lies there of which only the beginning can be read: whoever executes it waits
//   close    a process waits for a file there to be closed, in the middle of an exec
//   give     a program asks the recorder for memory of its own, and names a file there as the socket
//            that this is to be sent through: whoever closes the file waits
// Whatever happens to such processes, others go on.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROGRAM = 2, PAGE = 4096, BYTES_MAX = 1 << 20, REQUEST_BYTES = 256 << 10 };

static char content[BYTES_MAX];
static size_t size;
static const char *how;
// Shared between processes: how often the server was asked what it does not answer.
static volatile struct { int unanswered; } *shared;

#define MUST(what)                                                          \
    do {                                                                    \
        if (!(what)) {                                                      \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, strerror(errno)); \
            exit(9);                                                        \
        }                                                                   \
    } while (0)

static void reply(int device, struct fuse_in_header *in, int error, const void *data, size_t len) {
    char out[PAGE + sizeof(struct fuse_out_header)];
    struct fuse_out_header head = {sizeof head + len, error, in->unique};
    memcpy(out, &head, sizeof head);
    if (len) memcpy(out + sizeof head, data, len);
    (void)!write(device, out, sizeof head + len);
}

static struct fuse_attr attributes(uint64_t node) {
    struct fuse_attr attr = {.ino = node, .nlink = 1, .blksize = PAGE, .uid = getuid()};
    attr.mode = node == PROGRAM ? S_IFREG | 0777 : S_IFDIR | 0777;
    attr.size = node == PROGRAM ? size : 0;
    return attr;
}

static void serve(int device) {
    static char buffer[REQUEST_BYTES];
    for (;;) {
        ssize_t n = read(device, buffer, sizeof buffer);
        if (n < 0 && (errno == EINTR || errno == ENOENT)) continue;
        if (n <= 0) exit(0);
        struct fuse_in_header *in = (void *)buffer;
        void *body = buffer + sizeof *in;
        switch (in->opcode) {
        case FUSE_INIT: {
            struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .minor = 31};
            out.max_write = PAGE;
            reply(device, in, 0, &out, sizeof out);
            break;
        }
        case FUSE_LOOKUP: {
            // Only for a moment: it will be asked again.
            struct fuse_entry_out out = {.nodeid = PROGRAM, .attr = attributes(PROGRAM)};
            int known = strcmp(body, "program") == 0;
            reply(device, in, known ? 0 : -ENOENT, &out, known ? sizeof out : 0);
            break;
        }
        case FUSE_GETATTR:
        case FUSE_SETATTR: {
            struct fuse_attr_out out = {.attr = attributes(in->nodeid)};
            reply(device, in, 0, &out, sizeof out);
            break;
        }
        case FUSE_OPEN: {
            struct fuse_open_out out = {0};
            reply(device, in, 0, &out, sizeof out);
            break;
        }
        case FUSE_READ: {
            struct fuse_read_in *asked = body;
            if (*how == 'e' && asked->offset + asked->size > PAGE) {
                shared->unanswered++;
                break;
            }
            size_t at = asked->offset < size ? asked->offset : size;
            size_t len = asked->size < size - at ? asked->size : size - at;
            reply(device, in, 0, content + at, len < PAGE ? len : PAGE);
            break;
        }
        case FUSE_WRITE: {
            struct fuse_write_in *asked = body;
            struct fuse_write_out out = {.size = asked->size};
            reply(device, in, 0, &out, sizeof out);
            break;
        }
        case FUSE_FLUSH:
            if (*how == 'c' || *how == 'g') {
                shared->unanswered++;
                break;
            }
            reply(device, in, 0, NULL, 0);
            break;
        case FUSE_RELEASE: reply(device, in, 0, NULL, 0); break;
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET:
        case FUSE_INTERRUPT: break;
        default: reply(device, in, -ENOSYS, NULL, 0);
        }
    }
}

static int runs(const char *program) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        execl(program, program, NULL);
        _exit(9);
    }
    MUST(waitpid(child, &status, 0) == child);
    return status;
}

static void until_unanswered(void) {
    while (!shared->unanswered) usleep(1000);
}

// As an agent does, but the socket is none.
static void ask_for_an_arena(int file) {
    enum { REQUESTS = 256, REQUEST_BITS = 320, FIRST_SLOT = 4096, SLOT_BYTES = 1024, SLOTS = 8192 };
    enum { STATE = 0, TID = 7, REQUEST = 64, ANSWER = 65, ACTIVE = 2, USER_CHANGED = 4 };
    char line[400], *arena = NULL;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, " rw-s ") && (strstr(line, "/SYSV") || strstr(line, "/memfd:reenact")))
            arena = (char *)strtoul(line, NULL, 16);
    MUST(arena);
    for (int i = 0; i < SLOTS; i++) {
        volatile uint32_t *slot = (void *)(arena + FIRST_SLOT + i * SLOT_BYTES);
        if (slot[STATE] != ACTIVE || slot[TID] != (uint32_t)getpid()) continue;
        volatile uint64_t *arguments = (void *)(slot + 68);
        arguments[0] = arguments[2] = getpid();
        arguments[1] = file;
        slot[ANSWER] = 0;
        slot[REQUEST] = USER_CHANGED;
        __atomic_fetch_or((uint64_t *)(arena + REQUEST_BITS) + i / 64, 1ull << i % 64, __ATOMIC_SEQ_CST);
        __atomic_fetch_add((uint32_t *)(arena + REQUESTS), 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, arena + REQUESTS, FUTEX_WAKE, 1000, NULL, NULL, 0);
        return;
    }
    MUST(!"no slot of ours");
}

int main(int argc, char **argv) {
    MUST(argc > 2);
    how = argv[1];
    int file = open(argv[2], O_RDONLY);
    MUST(file >= 0);
    size = (size_t)read(file, content, sizeof content);
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(shared != MAP_FAILED && size > 2 * PAGE);
    MUST(mkdir("files", 0755) == 0 || errno == EEXIST);
    int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    char options[100];
    sprintf(options, "fd=%d,rootmode=40000,user_id=%d,group_id=%d", device, getuid(), getgid());
    MUST(mount("files", "files", "fuse", MS_NOSUID | MS_NODEV, options) == 0);
    pid_t server = fork();
    if (server == 0) serve(device);
    close(device);
    pid_t victim = 0;
    if (*how == 'e') {
        victim = fork();
        if (victim == 0) {
            execl("files/program", "program", NULL);
            _exit(9);
        }
        until_unanswered();
    } else if (*how == 'g') {
        victim = fork();
        if (victim == 0) {
            int given = open("files/program", O_RDONLY);
            // Where segments do not reach, memory is sent.
            MUST(given >= 0 && unshare(CLONE_NEWIPC) == 0);
            ask_for_an_arena(given);
            for (;;) pause();
        }
        until_unanswered();
    } else {
        victim = fork();
        if (victim == 0) {
            MUST(open("files/program", O_RDWR | O_CLOEXEC) >= 0);
            execl("/bin/true", "true", NULL);
            _exit(9);
        }
        until_unanswered();
    }
    for (int i = 0; i < 5; i++) MUST(runs("/bin/true") == 0);
    kill(victim, SIGKILL);
    // It gives up its own copy only when the server is gone.
    kill(server, SIGKILL);
    MUST(waitpid(victim, NULL, 0) == victim);
    MUST(waitpid(server, NULL, 0) == server);
    MUST(runs("/bin/true") == 0);
    puts("others go on");
    return 0;
}
