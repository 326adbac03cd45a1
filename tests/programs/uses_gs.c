// %gs is the program's: set by a call, or by an instruction in code that comes from a file. A recorder
// that needs the register for itself has to give it up in time; all else stays as it was.
// flags: -pthread
// gaps: own-gs
// count: off
#include "expect.h"
#include <asm/prctl.h>
#include <elf.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static volatile sig_atomic_t seen, on_alternate;
static char alternate[1 << 16];

// Where nothing is: whoever reads below this base dies.
#define NOWHERE 0x1000UL
// What sets it: not in the text of this program.
static const unsigned char setter[] = {0xf3, 0x48, 0x0f, 0xae, 0xdf, 0xc3}; // wrgsbase %rdi; ret

static unsigned long base(void) {
    unsigned long found = 1;
    CHECK(syscall(SYS_arch_prctl, ARCH_GET_GS, &found) == 0);
    return found;
}
static void set_by_call(unsigned long to) { CHECK(syscall(SYS_arch_prctl, ARCH_SET_GS, to) == 0); }
static void set_by_instruction(unsigned long to) {
    int fd = open("code", O_RDONLY);
    unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    CHECK(fd >= 0 && code != MAP_FAILED && close(fd) == 0);
    for (int i = 0; i < 10; i++) CHECK(getppid() > 0);
    ((void (*)(unsigned long))code)(to);
}

static void note(int signal) {
    char here;
    __sync_fetch_and_add(&seen, signal); // three threads get one at the same time
    on_alternate = &here >= alternate && &here < alternate + sizeof alternate;
}
static void make_calls(void) {
    struct stat stat;
    for (int i = 0; i < 50; i++)
        CHECK(getppid() > 0 && getpgrp() > 0 && access("code", F_OK) == 0 && fstat(0, &stat) == 0);
}
static void *in_thread(void *unused) {
    make_calls();
    CHECK(base() == NOWHERE && syscall(SYS_arch_prctl, ARCH_SET_GS, 2 * NOWHERE) == 0);
    make_calls();
    CHECK(raise(SIGUSR1) == 0 && base() == 2 * NOWHERE);
    return unused;
}

// All that was set up before goes on.
static void goes_on(void (*set)(unsigned long)) {
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate}, now;
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_ONSTACK | SA_RESTART}, told;
    sigset_t two, mask;
    sigemptyset(&two), sigaddset(&two, SIGUSR2);
    sigaddset(&action.sa_mask, SIGHUP);
    CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(signal(SIGUSR2, note) != SIG_ERR && signal(SIGBUS, SIG_IGN) != SIG_ERR);
    CHECK(sigprocmask(SIG_BLOCK, &two, NULL) == 0 && raise(SIGUSR2) == 0);
    make_calls();
    CHECK(base() == 0);
    set(NOWHERE);
    CHECK(base() == NOWHERE);
    make_calls();
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == alternate && now.ss_flags == 0);
    CHECK(sigaction(SIGUSR1, NULL, &told) == 0 && told.sa_handler == note);
    CHECK((told.sa_flags & ~0x04000000) == (SA_ONSTACK | SA_RESTART) && sigismember(&told.sa_mask, SIGHUP));
    CHECK(sigaction(SIGBUS, NULL, &told) == 0 && told.sa_handler == SIG_IGN);
    CHECK(sigaction(SIGSEGV, NULL, &told) == 0 && told.sa_handler == SIG_DFL);
    CHECK(sigprocmask(SIG_SETMASK, NULL, &mask) == 0 && sigismember(&mask, SIGUSR2) && !sigismember(&mask, SIGSYS));
    CHECK(raise(SIGUSR1) == 0 && seen == SIGUSR1 && on_alternate && base() == NOWHERE);
    CHECK(sigprocmask(SIG_UNBLOCK, &two, NULL) == 0 && seen == SIGUSR1 + SIGUSR2 && !on_alternate);
    pid_t pid = fork();
    if (pid == 0) make_calls(), _exit(base() == NOWHERE ? 0 : 1);
    CHECK_CHILD(pid);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, in_thread, NULL) == 0);
    for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(seen == 4 * SIGUSR1 + SIGUSR2 && base() == NOWHERE);
    execl("/proc/self/exe", "image", "7", "image", NULL);
    _exit(1);
}
static void by_call(void) { goes_on(set_by_call); }
static void by_instruction(void) { goes_on(set_by_instruction); }

// Memory that has a name, to be filled with code later: nobody else makes it take room.
static void nothing_there_yet(void) {
    char name[64];
    snprintf(name, sizeof name, "/uses-gs-%d", getpid());
    int named = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    int fds[] = {memfd_create("code", MFD_CLOEXEC), named};
    for (int i = 0; i < 2; i++) {
        struct stat now;
        if (fds[i] < 0) continue;
        CHECK(ftruncate(fds[i], 64 << 20) == 0);
        char *code = mmap(NULL, 64 << 20, PROT_READ | PROT_EXEC, MAP_SHARED, fds[i], 0);
        // Some systems let nothing of such a file be executed.
        CHECK(code != MAP_FAILED || errno == EPERM);
        CHECK(fstat(fds[i], &now) == 0 && now.st_blocks == 0);
    }
    if (named >= 0) CHECK(shm_unlink(name) == 0);
}
// What sets nothing changes nothing.
static void not_set(void) {
    CHECK(base() == 0);
    set_by_call(0);
    CHECK(base() == 0 && syscall(SYS_arch_prctl, ARCH_SET_GS, -1L) == -1 && errno == EPERM);
    CHECK(syscall(SYS_arch_prctl, ARCH_SET_GS, 1UL << 50) == -1 && errno == EPERM);
    CHECK(syscall(SYS_arch_prctl, ARCH_GET_GS, 8) == -1 && errno == EFAULT);
    make_calls();
}
// Mapped and never executed.
static void never_executed(void) {
    int fd = open("code", O_RDONLY);
    CHECK(fd >= 0 && mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) != MAP_FAILED);
    make_calls();
    CHECK(base() == 0);
    pid_t pid = vfork();
    if (pid == 0) _exit(0);
    CHECK_CHILD(pid);
}
// The same where a thread cannot be left alone without the others.
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static void *wait_and_call(void *unused) {
    CHECK(pthread_mutex_lock(&held) == 0);
    return make_calls(), unused;
}
static void beside_threads(void) {
    pthread_t thread;
    CHECK(pthread_mutex_lock(&held) == 0 && pthread_create(&thread, NULL, wait_and_call, NULL) == 0);
    never_executed();
    CHECK(pthread_mutex_unlock(&held) == 0 && pthread_join(thread, NULL) == 0);
    make_calls();
}
static void dies_as_alone(void) {
    set_by_instruction(NOWHERE);
    __asm__ volatile("mov %%gs:0, %%eax" : : : "eax");
}
// A program whose own text sets it.
static void in_the_program(void) {
    execl("./program", "program", NULL);
    _exit(1);
}

static void write_file(const char *name, const void *what, size_t len) {
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    CHECK(fd >= 0 && write(fd, what, len) == (ssize_t)len && close(fd) == 0);
}
static void write_program(void) {
    static const unsigned char code[] = {
        0xbf, 0x00, 0x10, 0x00, 0x00,             // mov $NOWHERE, %edi
        0xf3, 0x48, 0x0f, 0xae, 0xdf,             // wrgsbase %rdi
        0xbb, 0x14, 0x00, 0x00, 0x00,             // mov $20, %ebx
        0xb8, 0x6e, 0x00, 0x00, 0x00, 0x0f, 0x05, // getppid
        0xff, 0xcb, 0x75, 0xf5,                   // until %ebx is 0
        0xf3, 0x48, 0x0f, 0xae, 0xcf,             // rdgsbase %rdi
        0xc1, 0xef, 0x08,                         // shr $8, %edi
        0xb8, 0xe7, 0x00, 0x00, 0x00, 0x0f, 0x05, // exit_group(16)
    };
    struct {
        Elf64_Ehdr head;
        Elf64_Phdr segment;
        unsigned char code[sizeof code];
    } file = {
        .head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                 .e_type = ET_EXEC, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
                 .e_entry = 0x400000 + sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr),
                 .e_phoff = sizeof(Elf64_Ehdr), .e_ehsize = sizeof(Elf64_Ehdr),
                 .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 1},
        .segment = {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = 0x400000, .p_paddr = 0x400000,
                    .p_filesz = sizeof file, .p_memsz = sizeof file, .p_align = 4096},
    };
    memcpy(file.code, code, sizeof code);
    write_file("program", &file, sizeof file);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    if (argc > 2) {
        CHECK(base() == 0);
        return 0;
    }
    CHECK(setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) == 0);
    // Older processors and kernels have the call alone.
    int has_instruction = (getauxval(AT_HWCAP2) & 2) != 0;
    write_file("code", setter, sizeof setter);
    write_program();
#define CASE(f, by_instruction) {#f, f, by_instruction}
    static const struct { const char *name; void (*run)(void); int by_instruction; } cases[] = {
        CASE(nothing_there_yet, 0), CASE(not_set, 0), CASE(by_call, 0), CASE(by_instruction, 1), CASE(never_executed, 0), CASE(beside_threads, 0),
        CASE(dies_as_alone, 1), CASE(in_the_program, 1),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].by_instruction && !has_instruction) continue;
        run_case(cases[i].name, cases[i].run);
    }
    return 0;
}
