// What a program of one user may try against those of others in the same recording, by what its own
// recording has put into its memory. Run as `border ATTACK [ARGS]` by the user whom it is to be held
// back from becoming more; it says "held" and ends with 0, or what it got.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

struct map {
    unsigned long start, end, inode;
    char rights[8];
};

static struct map maps[16];
static int count;

// The memory that the recording has put here.
static void look(void) {
    FILE *file = fopen("/proc/self/maps", "r");
    char line[400];
    count = 0;
    while (file && fgets(line, sizeof line, file) && count < 16) {
        if (!strstr(line, "/SYSV") && !strstr(line, "/memfd:reenact")) continue;
        struct map *map = &maps[count++];
        sscanf(line, "%lx-%lx %7s %*x %*x:%*x %lu", &map->start, &map->end, map->rights, &map->inode);
    }
    if (file) fclose(file);
}

static int got(const char *what) {
    printf("got: %s\n", what);
    return 1;
}

static sigjmp_buf back;
static void faulted(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

static int can_store(volatile unsigned char *at) {
    signal(SIGSEGV, faulted);
    signal(SIGBUS, faulted);
    if (sigsetjmp(back, 1)) return 0;
    *at = *at;
    return 1;
}

// Ways to store that do not ask what a mapping allows.
static int force_a_store(void *at) {
    char byte = *(char *)at;
    int failed = 0, memory = open("/proc/self/mem", O_RDWR);
    if (memory >= 0 && pwrite(memory, &byte, 1, (off_t)at) == 1) failed |= got("a store by /proc/self/mem");
    if (memory >= 0) close(memory);
    struct iovec from = {&byte, 1}, to = {at, 1};
    if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) == 1) failed |= got("a store by process_vm_writev");
    if (madvise(at, 4096, MADV_REMOVE) == 0) failed |= got("a hole in code or catalog");
    int zero = open("/dev/zero", O_RDONLY);
    if (read(zero, at, 1) == 1) failed |= got("a store by the kernel");
    close(zero);
    return failed;
}

// What can be done to a file by a descriptor that is for reading.
static int change_file(int fd) {
    if (fd < 0) return 0;
    int failed = 0;
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = open(path, O_RDWR);
    if (again >= 0 && write(again, "", 0) == 0) failed |= got("a descriptor for writing, of one for reading");
    for (int i = 0; i < 2; i++) {
        int of = i ? again : fd;
        if (of >= 0 && fallocate(of, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0)
            failed |= got("a hole in a file of ours");
        if (of >= 0 && ftruncate(of, 0) == 0) failed |= got("a shorter file of ours");
        if (of >= 0 && mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, of, 0) != MAP_FAILED)
            failed |= got("a writable mapping of a file of ours");
    }
    close(fd);
    return failed;
}

// All that is not an arena stays as it is, whatever the kernel is asked for.
static int write_code(void) {
    int failed = 0;
    for (int i = 0; i < count; i++) {
        struct map *map = &maps[i];
        size_t len = map->end - map->start;
        void *at = (void *)map->start;
        if (map->rights[1] == 'w') continue;
        int is_private = map->rights[3] == 'p';
        if (can_store(at)) failed |= got("a store into code or catalog");
        if (!is_private && mprotect(at, 4096, PROT_READ | PROT_WRITE) == 0)
            failed |= got("mprotect of code or catalog");
        // Old size 0 makes another mapping of the same memory; more of it may lie behind.
        char *copy = mremap(at, 0, len, MREMAP_MAYMOVE);
        if (copy != MAP_FAILED && !is_private &&
            (can_store((void *)copy) || mprotect(copy, 4096, PROT_READ | PROT_WRITE) == 0))
            failed |= got("a writable copy of the mapping");
        void *attached = shmat((int)map->inode, NULL, 0);
        if (attached != (void *)-1) failed |= got("code or catalog attached for writing");
        attached = shmat((int)map->inode, NULL, SHM_EXEC);
        if (attached != (void *)-1) failed |= got("code or catalog attached for writing and execution");
        struct shmid_ds info;
        if (shmctl((int)map->inode, IPC_STAT, &info) == 0) {
            info.shm_perm.mode = 0777;
            if (shmctl((int)map->inode, IPC_SET, &info) == 0) failed |= got("the segment's rights");
        }
        char path[100];
        snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", map->start, map->end);
        if (open(path, O_RDWR) >= 0) failed |= got("code or catalog opened for writing");
        failed |= change_file(open(path, O_RDONLY));
        if (!is_private) failed |= force_a_store(at);
    }
    return failed;
}

// Beyond the arena there is nothing.
static int grow_arena(void) {
    int failed = 0;
    for (int i = 0; i < count; i++) {
        if (maps[i].rights[1] != 'w') continue;
        size_t len = maps[i].end - maps[i].start;
        char *copy = mremap((char *)maps[i].end - 4096, 0, 4096 + (1 << 20), MREMAP_MAYMOVE);
        if (copy != MAP_FAILED && can_store((void *)(copy + 4096)))
            failed |= got("memory behind the arena");
        if (copy == MAP_FAILED || len == 0) continue;
    }
    return failed;
}

// One arena, and none whose records hold what only another user may know.
static int read_secret(const char *secret) {
    size_t len = strlen(secret);
    int failed = 0, arenas = 0;
    for (int i = 0; i < count; i++) {
        if (maps[i].rights[1] != 'w') continue;
        arenas++;
        if (memmem((void *)maps[i].start, maps[i].end - maps[i].start, secret, len))
            failed |= got("what root has written");
    }
    if (arenas > 1) failed |= got("more than one arena");
    return failed;
}

// Segments of the recording by their ids, as anybody finds them who is not recorded.
static int attach_all(void) {
    FILE *file = fopen("/proc/sysvipc/shm", "r");
    char line[400];
    int failed = 0;
    while (file && fgets(line, sizeof line, file)) {
        int id;
        unsigned mode, uid;
        unsigned long size;
        if (sscanf(line, "%*d %d %o %lu %*u %*u %*u %u", &id, &mode, &size, &uid) != 4) continue;
        unsigned char *at = shmat(id, NULL, 0);
        if (at == (void *)-1) continue;
        // Only what is its own user's; that may be spoilt.
        if (uid != geteuid()) failed |= got("a segment of somebody else");
        for (size_t i = 0; i + 8 <= size && i < (24u << 20); i += 8) *(uint64_t *)(at + i) = ~0ull;
        shmdt(at);
    }
    return failed;
}

static int is_somebody_elses(int pid) {
    char path[64];
    struct stat state;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    return stat(path, &state) == 0 && state.st_uid != geteuid();
}

// Processes of other users, those that record among them: their memory and descriptors.
static int reach_others(void) {
    DIR *all = opendir("/proc");
    struct dirent *entry;
    int failed = 0, others = 0;
    while (all && (entry = readdir(all))) {
        int pid = atoi(entry->d_name);
        char path[64], byte;
        const char *reached = NULL;
        if (pid <= 0 || pid == getpid() || !is_somebody_elses(pid)) continue;
        others++;
        snprintf(path, sizeof path, "/proc/%d/mem", pid);
        if (open(path, O_RDONLY) >= 0) reached = "memory of somebody else";
        snprintf(path, sizeof path, "/proc/%d/fd", pid);
        if (opendir(path)) reached = "descriptors of somebody else";
        snprintf(path, sizeof path, "/proc/%d/map_files", pid);
        if (opendir(path)) reached = "mapped files of somebody else";
        if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0) reached = "somebody else as a tracee";
        struct iovec into = {&byte, 1}, from = {maps[0].start ? (void *)maps[0].start : &byte, 1};
        if (process_vm_readv(pid, &into, 1, &from, 1, 0) >= 0) reached = "bytes of somebody else";
        int pidfd = syscall(SYS_pidfd_open, pid, 0);
        for (int fd = 0; pidfd >= 0 && fd < 40; fd++)
            if (syscall(SYS_pidfd_getfd, pidfd, fd, 0) >= 0) reached = "a descriptor of somebody else";
        if (pidfd >= 0) close(pidfd);
        // Root's may have become this user's meanwhile, of their own will.
        if (reached && is_somebody_elses(pid)) failed |= got(reached);
    }
    if (others < 3) failed |= got("nobody else to reach: nothing was tried");
    return failed;
}

// Spoils its own arena, in several ways, for as long as others work.
static int scribble(const char *how) {
    uint64_t state = strtoull(how, NULL, 0);
    for (int i = 0; i < count; i++) {
        if (maps[i].rights[1] != 'w') continue;
        volatile uint64_t *words = (uint64_t *)maps[i].start;
        size_t head = (9u << 20) / 8;
        for (int round = 0; round < 400000; round++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            size_t at = (state >> 33) % (round % 2 ? head : 512);
            words[at] = round % 3 == 0 ? ~0ull : round % 3 == 1 ? state : state >> 60;
        }
    }
    return 0;
}

// The head of the arena is written by the recorder: it must not tell where that has its memory.
static int read_addresses(void) {
    int failed = 0;
    for (int i = 0; i < count; i++) {
        if (maps[i].rights[1] != 'w') continue;
        for (volatile uint64_t *word = (uint64_t *)maps[i].start; word < (uint64_t *)(maps[i].start + 256); word++)
            if (*word >> 40 && *word < 1ull << 47) failed |= got("an address of the recorder");
    }
    return failed;
}

// Forgets all that the head of its arena holds, and whatever the recorder has linked with it.
static int wipe(void) {
    for (int i = 0; i < count; i++)
        if (maps[i].rights[1] == 'w') memset((void *)maps[i].start, 0, 4096);
    return 0;
}

// Speaks for another process: writes its ids into all slots and asks for what agents ask for.
static int speak_for(const char *pid_text, const char *request_text) {
    uint32_t pid = atoi(pid_text), request = atoi(request_text);
    for (int i = 0; i < count; i++) {
        if (maps[i].rights[1] != 'w') continue;
        // The layout is no secret: slots of 1 KiB behind the first page; state, tid and request are
        // found by their values in our own slot.
        volatile uint32_t *slots = (uint32_t *)(maps[i].start + 4096), own = getpid();
        for (int slot = 0; slot < 64; slot++) {
            volatile uint32_t *words = slots + slot * 256;
            if (words[6] != own) continue;
            for (int n = 0; n < 200; n++) {
                words[6] = words[7] = words[8] = pid;
                volatile uint32_t *control = (uint32_t *)maps[i].start;
                for (int at = 0; at < 256; at++)
                    if (at > 44 && words[at] == 0) words[at] = request;
                for (int at = 64; at < 320; at++) control[at] |= 1u << (slot % 32);
                usleep(500);
            }
        }
    }
    return 0;
}

// The calling thread's slot in its arena, whose layout is no secret.
static volatile uint32_t *own_slot(char **arena) {
    for (int i = 0; i < count; i++) {
        if (maps[i].rights[1] != 'w') continue;
        *arena = (char *)maps[i].start;
        for (int slot = 0; slot < 8192; slot++) {
            volatile uint32_t *words = (uint32_t *)(*arena + 4096 + slot * 1024);
            if (words[0] == 2 && words[7] == (uint32_t)gettid()) return words;
        }
    }
    return NULL;
}

// Asks in the agent's place to be followed into a program, and executes it.
static void execute_as_followed(char **words) {
    enum { PROCESS = 3, REQUEST = 64, ANSWER = 65, FIRST_ARGUMENT = 68, WORD_AT = 256, BITS_AT = 320 };
    char *arena;
    volatile uint32_t *slot = own_slot(&arena);
    if (!slot) _exit(3);
    // As root's first process, if that is asked for.
    if (!strcmp(words[0], "as-roots")) {
        slot[PROCESS] = 1;
        words++;
    }
    size_t index = ((char *)slot - arena - 4096) / 1024;
    slot[FIRST_ARGUMENT] = gettid();
    slot[FIRST_ARGUMENT + 1] = 0;
    slot[ANSWER] = 0;
    slot[REQUEST] = 1;
    __sync_fetch_and_or((uint64_t *)(arena + BITS_AT) + index / 64, 1ull << index % 64);
    __sync_fetch_and_add((uint32_t *)(arena + WORD_AT), 1);
    syscall(SYS_futex, arena + WORD_AT, FUTEX_WAKE, 1000, 0, 0, 0);
    for (int n = 0; n < 2000 && !slot[ANSWER]; n++) usleep(1000);
    if (!slot[ANSWER]) _exit(4);
    execv(words[0], words);
    _exit(5);
}

// Has a program recorded that gains rights, which tells a secret, and looks for that in the arena.
static int gain_by_exec(const char *secret, char **words) {
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        execute_as_followed(words);
    }
    int status;
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) >= 3) return got("nothing: the attack was not made");
    sleep(1);
    return secret ? read_secret(secret) : 0;
}

// What a child does while the others spoil the arena that it is recorded in.
static void work(uint64_t seed) {
    char bytes[300] = {0};
    for (int n = 0;; n++) {
        int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (fd >= 0 && write(fd, bytes, seed % sizeof bytes) >= 0) close(fd);
        pid_t pid = fork();
        if (pid == 0) {
            if (n % 2) execl("/bin/true", "true", NULL);
            _exit(0);
        }
        if (pid > 0) waitpid(pid, NULL, 0);
    }
}

// Random words all over the arena, at places and of values that mean something more often than not.
static void spoil(uint64_t state) {
    for (;;) {
        for (int i = 0; i < count; i++) {
            if (maps[i].rights[1] != 'w') continue;
            for (int round = 0; round < 64; round++) {
                state = state * 6364136223846793005u + 1442695040888963407u;
                uint64_t choice = state >> 32, size = maps[i].end - maps[i].start;
                uint64_t place = choice % 4 == 0   ? choice / 4 % 4096
                                 : choice % 4 == 1 ? 4096 + choice / 4 % (64 << 10)
                                 : choice % 4 == 2 ? choice / 4 % (9 << 20)
                                                   : (choice * 2654435761u) % size;
                static const uint32_t values[] = {0, 1, 2, 3, 4, 5, 7, 8191, 8192, 65536, 1u << 30, ~0u, 1u << 31};
                uint32_t value = round % 3 ? values[choice / 7 % 13] : (uint32_t)(state >> 20);
                if (round % 8 == 0) value = getpid();
                *(volatile uint32_t *)(maps[i].start + place / 4 * 4) = value;
            }
        }
        usleep(state >> 53);
    }
}

// Children work and spoil for so many milliseconds. They may die of it; that is theirs.
static int fuzz(uint64_t seed, int milliseconds) {
    pid_t children[4];
    for (int i = 0; i < 4; i++) {
        children[i] = fork();
        // A group of its own, so that nobody outlives the attack who waits in a spoilt arena.
        setpgid(children[i], children[i]);
        if (children[i] == 0) {
            if (i < 2) work(seed + i);
            spoil(seed * 31 + i);
        }
    }
    usleep(milliseconds * 1000);
    for (int i = 0; i < 4; i++)
        if (children[i] > 0) kill(-children[i], SIGKILL);
    for (int i = 0; i < 4; i++)
        if (children[i] > 0) waitpid(children[i], NULL, 0);
    return 0;
}

static int try_as_it_is(const char *kind, const char *spelled_otherwise) {
    // The secret stands in our arguments, and so in our own arena, in another spelling.
    char secret[64] = {0};
    for (size_t i = 0; i < 63 && spelled_otherwise[i]; i++) secret[i] = spelled_otherwise[i] ^ 1;
    return !strcmp(kind, "read-secret") ? read_secret(secret)
           : !strcmp(kind, "write-code") ? write_code()
           : !strcmp(kind, "scribble")   ? scribble("7")
                                         : 2;
}

// Root gives up its rights without an exec, and tries the rest.
static const char *kind, *secret_spelled_otherwise;

static int become_and_try(int by_steps) {
    look();
    struct map before[16];
    int count_before = count, failed = 0;
    memcpy(before, maps, sizeof before);
    int done = by_steps ? seteuid(0) == 0 && setuid(0) == 0 : syscall(SYS_setresuid, 65534, 65534, 65534) == 0;
    if (!done) return got("nothing: the user did not change");
    look();
    for (int i = 0; i < count_before; i++)
        for (int n = 0; n < count; n++)
            if (before[i].rights[1] == 'w' && maps[n].rights[1] == 'w' && before[i].inode == maps[n].inode)
                failed |= got("the arena of root's programs");
    return failed | try_as_it_is(kind, secret_spelled_otherwise);
}

static volatile int turns, enough;
static int ends[2];

// What a process that shares our memory does meanwhile: execute, wait to be killed, or work on.
static int beside(void *what) {
    if (!strcmp(what, "executes")) execl("/bin/sleep", "sleep", "1", NULL);
    while (!strcmp(what, "is-killed")) pause();
    for (; !enough; turns++) getppid();
    return 0;
}

static int become_beside(char *what) {
    static char stack[64 << 10];
    char byte;
    if (pipe2(ends, O_CLOEXEC)) return 2;
    pid_t other = clone(beside, stack + sizeof stack, CLONE_VM | SIGCHLD, what);
    if (other < 0) return 2;
    close(ends[1]);
    siginfo_t info;
    if (!strcmp(what, "executes") && read(ends[0], &byte, 1) != 0) return 2;
    if (!strcmp(what, "is-killed") && (kill(other, SIGKILL) || waitid(P_PID, other, &info, WEXITED | WNOWAIT)))
        return 2;
    while (!strcmp(what, "works-on") && turns < 1000) usleep(1000);
    int failed = become_and_try(0);
    int after = turns + 1000;
    int waits = strcmp(what, "works-on") ? 0 : 10000;
    for (; waits && turns < after; waits--) usleep(1000);
    if (!strcmp(what, "works-on") && !waits) failed |= got("the end of a process that shares our memory");
    enough = 1;
    return failed;
}

// In a child of its own; its result is ours.
static int in_child(int (*work)(int), int argument, void (*meanwhile)(pid_t)) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        int failed = work(argument);
        fflush(stdout);
        _exit(failed);
    }
    if (meanwhile) meanwhile(child);
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return got("the end of a child");
    return WEXITSTATUS(status);
}

static int to_child[2], to_maker[2];

static int left_behind(void *unused) {
    (void)unused;
    char byte;
    close(to_child[1]);
    if (read(to_child[0], &byte, 1) != 0) _exit(2);
    unsigned char failed = become_and_try(0);
    fflush(stdout);
    _exit(write(to_maker[1], &failed, 1) != 1);
}

// Its maker, with whom it shares memory, is gone.
static int make_and_leave(int unused) {
    static char stack[64 << 10];
    (void)unused;
    _exit(clone(left_behind, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL) < 0);
}

static int become_when_left(void) {
    unsigned char failed = 2;
    if (pipe2(to_child, O_CLOEXEC) || pipe2(to_maker, O_CLOEXEC)) return 2;
    if (in_child(make_and_leave, 0, NULL)) return 2;
    close(to_child[1]);
    return read(to_maker[0], &failed, 1) == 1 ? failed : 2;
}

static int when_told(int by_steps) {
    char byte;
    if (read(to_child[0], &byte, 1) != 1) return 2;
    return become_and_try(by_steps);
}

// A tracer that comes and goes again.
static void trace(pid_t child) {
    usleep(100000);
    int done = ptrace(PTRACE_SEIZE, child, NULL, NULL) == 0 && ptrace(PTRACE_INTERRUPT, child, NULL, NULL) == 0 &&
               waitpid(child, NULL, __WALL) == child && ptrace(PTRACE_DETACH, child, NULL, NULL) == 0;
    if (!done || write(to_child[1], "x", 1) != 1) kill(child, SIGKILL);
}

static int ask_to_be_traced(int unused) {
    (void)unused;
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL)) return 2;
    return become_and_try(0);
}

// Ids are others there than outside, and root's are none.
static int in_user_namespace(int by_steps) {
    if (unshare(CLONE_NEWUSER) || write(to_maker[1], "x", 1) != 1) return 2;
    return when_told(by_steps);
}

static void map_users(pid_t child) {
    char path[40], byte;
    if (read(to_maker[0], &byte, 1) != 1) return;
    snprintf(path, sizeof path, "/proc/%d/uid_map", child);
    int fd = open(path, O_WRONLY);
    const char map[] = "0 100000 65536";
    if (write(fd, map, strlen(map)) < 0 || write(to_child[1], "x", 1) != 1) kill(child, SIGKILL);
    close(fd);
}

static int become(char *way) {
    if (!strcmp(way, "at-once")) return become_and_try(0);
    if (!strncmp(way, "beside-", 7)) return become_beside(way + 7);
    if (!strcmp(way, "when-left")) return become_when_left();
    if (!strcmp(way, "asking-to-be-traced")) return in_child(ask_to_be_traced, 0, NULL);
    if (pipe2(to_child, O_CLOEXEC) || pipe2(to_maker, O_CLOEXEC)) return 2;
    if (!strcmp(way, "traced-before")) return in_child(when_told, 0, trace);
    if (!strcmp(way, "unmapped")) return in_child(in_user_namespace, 0, map_users);
    if (!strcmp(way, "unmapped-by-steps")) return in_child(in_user_namespace, 1, map_users);
    return 2;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    look();
    int failed = 2;
    if (!strcmp(argv[1], "write-code")) failed = count < 3 ? got("too little memory of ours") : write_code();
    if (!strcmp(argv[1], "grow-arena")) failed = grow_arena();
    if (!strcmp(argv[1], "read-secret")) failed = try_as_it_is(argv[1], argv[2]);
    if (!strcmp(argv[1], "attach-all")) failed = attach_all();
    if (!strcmp(argv[1], "gain-by-exec")) {
        char secret[64] = {0};
        for (size_t i = 0; i < 63 && argv[2][i]; i++) secret[i] = argv[2][i] ^ 1;
        failed = gain_by_exec(secret, argv + 3);
    }
    if (!strcmp(argv[1], "name-others")) failed = gain_by_exec(NULL, argv + 2);
    if (!strcmp(argv[1], "reach-others")) failed = reach_others();
    if (!strcmp(argv[1], "scribble")) failed = scribble(argv[2]);
    if (!strcmp(argv[1], "read-addresses")) failed = read_addresses();
    if (!strcmp(argv[1], "wipe")) failed = wipe();
    if (!strcmp(argv[1], "speak-for")) failed = speak_for(argv[2], argv[3]);
    if (!strcmp(argv[1], "fuzz")) failed = fuzz(strtoull(argv[2], NULL, 0), atoi(argv[3]));
    if (!strcmp(argv[1], "become") && argc == 5) {
        kind = argv[3], secret_spelled_otherwise = argv[4];
        failed = become(argv[2]);
    }
    if (failed == 0) printf("held\n");
    return failed;
}
