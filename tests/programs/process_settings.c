// What a process or thread asks of the kernel about its memory, its registers and itself: protection
// keys, faults that another thread mends, addresses that are told, personalities, restartable sequences.
// flags: -pthread
// count: off
#include "expect.h"
#include <asm/prctl.h>
#include <linux/rseq.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <ucontext.h>

#ifndef SEGV_PKUERR
#define SEGV_PKUERR 4
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

static volatile sig_atomic_t seen;
static char *page;
static int key;

static void handle(int signal, void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(signal, &action, NULL) == 0);
}
static char *new_page(void) {
    char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}
static void make_calls(void) {
    for (int i = 0; i < 30; i++) CHECK(getppid() > 0 && access("/", F_OK) == 0);
}

// A page that only who has its key may touch; the kernel may not either, in the program's place.
static void on_key_fault(int signal, siginfo_t *info, void *context) {
    (void)context;
    CHECK(signal == SIGSEGV && info->si_code == SEGV_PKUERR && info->si_pkey == (uint32_t)key);
    CHECK((char *)info->si_addr == page);
    // Handlers begin with all keys but the first refused.
    CHECK(pkey_get(key) == PKEY_DISABLE_ACCESS);
    CHECK(pkey_mprotect(page, 4096, PROT_READ | PROT_WRITE, 0) == 0);
    seen++;
}
static void protection_keys(void) {
    key = pkey_alloc(0, 0);
    if (key < 0) _exit(3);
    page = new_page();
    handle(SIGSEGV, on_key_fault);
    int pipe_ends[2];
    CHECK(pipe(pipe_ends) == 0 && write(pipe_ends[1], "abc", 3) == 3);
    CHECK(pkey_mprotect(page, 4096, PROT_READ | PROT_WRITE, key) == 0);
    *page = 'x';
    for (int i = 0; i < 10; i++) {
        CHECK(pkey_set(key, PKEY_DISABLE_ACCESS) == 0);
        CHECK(write(pipe_ends[1], page, 1) == -1 && errno == EFAULT);
        CHECK(read(pipe_ends[0], page, 1) == -1 && errno == EFAULT);
        CHECK(open(page, O_RDONLY) == -1 && errno == EFAULT);
        make_calls();
        CHECK(pkey_get(key) == PKEY_DISABLE_ACCESS);
        CHECK(pkey_set(key, PKEY_DISABLE_WRITE) == 0);
        CHECK(write(pipe_ends[1], page, 1) == 1 && read(pipe_ends[0], page, 1) == -1 && errno == EFAULT);
        CHECK(pkey_get(key) == PKEY_DISABLE_WRITE && seen == 0);
    }
    CHECK(pkey_set(key, PKEY_DISABLE_ACCESS) == 0);
    *page = 'y';
    CHECK(seen == 1 && *page == 'y' && pkey_get(key) == PKEY_DISABLE_ACCESS);
    CHECK(pkey_free(key) == 0 && pkey_free(key) == -1 && errno == EINVAL);
}

// The first touch of a page waits for another thread, also where a call touches it.
static void *mend(void *faults) {
    for (int i = 0; i < 4; i++) {
        struct uffd_msg told;
        CHECK(read((int)(long)faults, &told, sizeof told) == sizeof told && told.event == UFFD_EVENT_PAGEFAULT);
        char from[4096] __attribute__((aligned(4096)));
        memset(from, 'a' + i, sizeof from);
        struct uffdio_copy copy = {.dst = told.arg.pagefault.address & ~4095ULL, .src = (uintptr_t)from, .len = 4096};
        CHECK(ioctl((int)(long)faults, UFFDIO_COPY, &copy) == 0);
    }
    return NULL;
}
static void mended_faults(void) {
    int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (faults < 0) _exit(3);
    struct uffdio_api api = {.api = UFFD_API};
    CHECK(ioctl(faults, UFFDIO_API, &api) == 0);
    char *pages = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {.range = {(uintptr_t)pages, 4 * 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    CHECK(pages != MAP_FAILED && ioctl(faults, UFFDIO_REGISTER, &range) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, mend, (void *)(long)faults) == 0);
    int ends[2];
    CHECK(pipe(ends) == 0 && pages[0] == 'a');
    CHECK(write(ends[1], pages + 4096, 3) == 3 && pages[4096] == 'b');
    CHECK(read(ends[0], pages + 2 * 4096, 3) == 3 && memcmp(pages + 2 * 4096, "bbbcc", 5) == 0);
    pages[3 * 4096] = 'z';
    CHECK(pages[3 * 4096 + 1] == 'd' && pthread_join(thread, NULL) == 0);
}

// Addresses that the kernel keeps and tells.
static void told_addresses(void) {
    char line[512] = {0}, *arguments = new_page();
    strcpy(arguments, "another name");
    unsigned long at = (uintptr_t)arguments;
    if (prctl(PR_SET_MM, PR_SET_MM_ARG_START, at, 0, 0) == -1) {
        CHECK(errno == EPERM || errno == EINVAL);
        return;
    }
    CHECK(prctl(PR_SET_MM, PR_SET_MM_ARG_END, at + 13, 0, 0) == 0);
    int fd = open("/proc/self/cmdline", O_RDONLY);
    CHECK(fd >= 0 && read(fd, line, sizeof line) > 0 && strncmp(line, "another name", 12) == 0);
    CHECK(prctl(PR_SET_MM, PR_SET_MM_BRK, 8, 0, 0) == -1 && errno == EINVAL);
    make_calls();
}

static void personalities(void) {
    CHECK(personality(0xffffffff) == PER_LINUX);
    CHECK(personality(ADDR_NO_RANDOMIZE | PER_LINUX32) == PER_LINUX);
    CHECK(personality(0xffffffff) == (ADDR_NO_RANDOMIZE | PER_LINUX32));
    make_calls();
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "image", "7", "linux32", NULL);
        _exit(1);
    }
    CHECK_CHILD(pid);
    // Whoever asks for memory to be read gets it to be executed as well.
    CHECK(personality(READ_IMPLIES_EXEC) == (ADDR_NO_RANDOMIZE | PER_LINUX32));
    unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    memcpy(code, "\xb8\x2a\x00\x00\x00\xc3", 6); // mov $42, %eax; ret
    CHECK(((int (*)(void))code)() == 42);
    make_calls();
    execl("/proc/self/exe", "image", "7", "executable", NULL);
    _exit(1);
}

// What the processor has beyond the usual: asked for, and there or not.
static void features(void) {
    uint64_t supported = 0, permitted = 0;
    long told = syscall(SYS_arch_prctl, 0x1021 /* ARCH_GET_XCOMP_SUPP */, &supported);
    CHECK(told == 0 || (told == -1 && errno == EINVAL));
    if (told == 0) {
        CHECK(syscall(SYS_arch_prctl, 0x1022 /* ARCH_GET_XCOMP_PERM */, &permitted) == 0);
        CHECK((permitted & ~supported) == 0);
        long got = syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18);
        CHECK(got == 0 || (got == -1 && (errno == EOPNOTSUPP || errno == EINVAL)));
    }
    uint64_t shadow = 0;
    told = syscall(SYS_arch_prctl, 0x5005 /* ARCH_SHSTK_STATUS */, &shadow);
    CHECK((told == 0 && shadow == 0) || (told == -1 && (errno == EINVAL || errno == EOPNOTSUPP || errno == ENOTSUP)));
    long identified = syscall(SYS_arch_prctl, ARCH_GET_CPUID, 0);
    CHECK(identified == 1 || (identified == -1 && errno == EINVAL));
    CHECK(syscall(SYS_arch_prctl, 0x7777, 0) == -1 && errno == EINVAL);
    unsigned long fs = 0;
    CHECK(syscall(SYS_arch_prctl, ARCH_GET_FS, &fs) == 0 && fs == (unsigned long)__builtin_thread_pointer());
    CHECK(syscall(SYS_arch_prctl, ARCH_SET_FS, fs) == 0);
    CHECK(syscall(SYS_arch_prctl, ARCH_SET_FS, -1L) == -1 && errno == EPERM);
    make_calls();
}

// A signal in the middle of a restartable sequence sends it back to its beginning.
static volatile struct rseq *area;
static void interrupt_it(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    seen++;
    greg_t at = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    extern char sequence_begin[], sequence_end[];
    CHECK(at < (greg_t)sequence_begin || at >= (greg_t)sequence_end);
}
static void run_sequences(void) {
    static __thread struct rseq own __attribute__((aligned(32)));
    own.cpu_id = (uint32_t)RSEQ_CPU_ID_UNINITIALIZED;
    if (syscall(SYS_rseq, &own, sizeof own, 0, 0x53053053) != 0) _exit(3);
    area = &own;
    for (int i = 0; i < 20; i++) {
        long aborted = 0, turns = 0;
        __asm__ volatile(
            ".pushsection __rseq_cs, \"aw\"; .balign 32; 9: .long 0, 0; .quad sequence_begin, "
            "sequence_end - sequence_begin, 4f; .popsection\n"
            "lea 9b(%%rip), %%rax; mov %%rax, 8(%2)\n"
            ".globl sequence_begin, sequence_end; sequence_begin:\n"
            "1: inc %1; cmp $2000000000, %1; jb 1b\n"
            "sequence_end: jmp 5f\n"
            ".long 0x53053053; 4: inc %0\n"
            "5:\n"
            : "+r"(aborted), "+r"(turns) : "r"(area) : "rax", "memory", "cc");
        CHECK(aborted == 1);
        CHECK(getppid() > 0 && own.cpu_id < 1 << 16);
    }
    CHECK(syscall(SYS_rseq, &own, sizeof own, RSEQ_FLAG_UNREGISTER, 0x53053053) == 0);
}
static void sequences(void) {
    handle(SIGALRM, interrupt_it);
    struct timespec tick = {0, 3000000};
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    CHECK(timer_settime(timer, 0, &(struct itimerspec){tick, tick}, NULL) == 0);
    run_sequences();
}
// The C library has one for each thread, unless it is told to have none.
static void without_library(void) {
    CHECK(setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", 1) == 0);
    execl("/proc/self/exe", "image", "7", "sequences", NULL);
    _exit(1);
}

// Names, and what is passed on or is not.
static void attributes(void) {
    char name[16] = {0};
    CHECK(prctl(PR_SET_TIMERSLACK, 12345) == 0 && prctl(PR_GET_TIMERSLACK) == 12345);
    CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0 && prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 && prctl(PR_SET_DUMPABLE, 0) == 0);
    CHECK(prctl(PR_GET_DUMPABLE) == 0);
    make_calls();
    CHECK(prctl(PR_SET_NAME, "settings") == 0);
    int reaped = -1;
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(prctl(PR_GET_NAME, name) == 0 && strcmp(name, "settings") == 0);
        CHECK(prctl(PR_GET_TIMERSLACK) == 12345 && prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1);
        CHECK(prctl(PR_GET_CHILD_SUBREAPER, &reaped) == 0 && reaped == 0 && prctl(PR_GET_DUMPABLE) == 0);
        // An orphan, which its grandparent inherits.
        if (fork() == 0) {
            usleep(20000);
            _exit(9);
        }
        _exit(0);
    }
    CHECK_CHILD(pid);
    int status;
    CHECK(wait(&status) > 0 && WEXITSTATUS(status) == 9 && wait(&status) == -1 && errno == ECHILD);
    CHECK(prctl(PR_SET_DUMPABLE, 1) == 0 && prctl(PR_GET_DUMPABLE) == 1);
    CHECK(prctl(PR_SET_DUMPABLE, 2) == -1 && errno == EINVAL);
    CHECK(prctl(PR_SET_KEEPCAPS, 1) == 0 && prctl(PR_GET_KEEPCAPS) == 1);
    CHECK(prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0) == 0);
    CHECK(prctl(PR_MCE_KILL_GET, 0, 0, 0, 0) == PR_MCE_KILL_EARLY);
    make_calls();
}

int main(int argc, char **argv) {
    begin(argc, argv);
    if (argc > 2 && strcmp(argv[2], "linux32") == 0) {
        CHECK(personality(0xffffffff) == (ADDR_NO_RANDOMIZE | PER_LINUX32));
        return 0;
    }
    if (argc > 2 && strcmp(argv[2], "sequences") == 0) {
        sequences();
        return 0;
    }
    if (argc > 2) {
        CHECK(personality(0xffffffff) == PER_LINUX);
        make_calls();
        return 0;
    }
    CHECK(setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) == 0);
#define CASE(f) {#f, f}
    static const struct { const char *name; void (*run)(void); } cases[] = {
        CASE(protection_keys), CASE(mended_faults), CASE(told_addresses), CASE(personalities),
        CASE(features), CASE(without_library), CASE(attributes),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_case(cases[i].name, cases[i].run);
    }
    return 0;
}
