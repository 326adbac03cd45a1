// Where sandboxes and signals meet: who answers calls for another process and gives it descriptors,
// filters in spawned children, strict mode, dispatch to the program itself, handlers that recurse, leave by
// jumps or change what they return to.
// flags: -pthread
// count: off
#include "expect.h"
#include "filter.h"
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <ucontext.h>

static volatile sig_atomic_t seen, depth, deepest;
static char alternate[1 << 16];

static void handle(int signal, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    CHECK(sigaction(signal, &action, NULL) == 0);
}
static void use_alternate_stack(void) {
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    CHECK(sigaltstack(&stack, NULL) == 0);
}
static void make_calls(void) {
    for (int i = 0; i < 20; i++) CHECK(getppid() > 0 && syscall(SYS_getpgid, 0) > 0);
}

// Another process opens what the first may not, and puts the descriptor into it.
static void send_descriptor(int socket, int fd) {
    char byte = 0;
    struct iovec vector = {&byte, 1};
    union { char room[CMSG_SPACE(sizeof(int))]; struct cmsghdr head; } control = {0};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    CHECK(sendmsg(socket, &message, 0) == 1);
}
static int receive_descriptor(int socket) {
    char byte;
    struct iovec vector = {&byte, 1};
    union { char room[CMSG_SPACE(sizeof(int))]; struct cmsghdr head; } control;
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    CHECK(recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1);
    int fd;
    memcpy(&fd, CMSG_DATA(&control.head), sizeof fd);
    return fd;
}
static void ask_for_files(int socket) {
    long listener = INSTALL_WITH(SECCOMP_FILTER_FLAG_NEW_LISTENER, ANSWER(SYS_getsid, SECCOMP_RET_USER_NOTIF),
                                 ANSWER(SYS_mkdir, SECCOMP_RET_USER_NOTIF), RETURN(SECCOMP_RET_ALLOW));
    CHECK(listener >= 0);
    send_descriptor(socket, (int)listener);
    CHECK(close((int)listener) == 0);
    for (int i = 0; i < 5; i++) {
        char text[16] = {0};
        long fd = syscall(SYS_getsid, i);
        CHECK(fd >= 0 && fcntl((int)fd, F_GETFD) == (i % 2 ? FD_CLOEXEC : 0));
        CHECK(read((int)fd, text, sizeof text) == 5 && strcmp(text, "given") == 0 && close((int)fd) == 0);
        make_calls();
    }
    CHECK(syscall(SYS_getsid, 77) == -1 && errno == EACCES);
    // What was refused so says nothing of files.
    CHECK(mkdir("refused", 0700) == -1 && errno == EACCES);
}
static void given_descriptors(void) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    pid_t pid = fork();
    if (pid == 0) ask_for_files(pair[1]), _exit(0);
    int listener = receive_descriptor(pair[0]);
    for (int i = 0; i < 7; i++) {
        struct seccomp_notif asked = {0};
        CHECK(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) == 0);
        CHECK(ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &asked.id) == 0);
        if (asked.data.nr == SYS_mkdir || asked.data.args[0] == 77) {
            struct seccomp_notif_resp answer = {.id = asked.id, .error = -EACCES};
            CHECK(ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0);
            continue;
        }
        int fd = open("given", O_RDONLY | O_CLOEXEC);
        struct seccomp_notif_addfd given = {.id = asked.id, .srcfd = (uint32_t)fd, .newfd_flags = i % 2 ? O_CLOEXEC : 0};
        CHECK(fd >= 0);
        long got = ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &given);
        CHECK(got >= 0 && close(fd) == 0);
        struct seccomp_notif_resp answer = {.id = asked.id, .val = got};
        CHECK(ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0);
    }
    CHECK_CHILD(pid);
    struct pollfd end = {.fd = listener, .events = POLLIN};
    CHECK(poll(&end, 1, 5000) == 1 && (end.revents & POLLHUP));
}

// Who waits for an answer is hit by a signal: the call is made again, and asked for again.
static void count(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    seen++;
}
static void interrupted_question(void) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        handle(SIGUSR1, count, SA_RESTART);
        long listener = INSTALL_WITH(SECCOMP_FILTER_FLAG_NEW_LISTENER, ANSWER(SYS_getsid, SECCOMP_RET_USER_NOTIF),
                                     RETURN(SECCOMP_RET_ALLOW));
        send_descriptor(pair[1], (int)listener);
        CHECK(syscall(SYS_getsid, 0) == 4711 && seen == 1);
        make_calls();
        _exit(0);
    }
    int listener = receive_descriptor(pair[0]);
    struct seccomp_notif first = {0}, second = {0};
    CHECK(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &first) == 0 && kill(pid, SIGUSR1) == 0);
    CHECK(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &second) == 0 && first.id != second.id);
    CHECK(ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &first.id) == -1 && errno == ENOENT);
    struct seccomp_notif_resp answer = {.id = second.id, .val = 4711};
    CHECK(ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0);
    CHECK_CHILD(pid);
}

// A child that shares its maker's memory confines itself and executes: its maker is not confined.
static void confined_spawns(void) {
    for (int i = 0; i < 6; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            INSTALL(ANSWER(SYS_getpgid, SECCOMP_RET_ERRNO | EXDEV), RETURN(SECCOMP_RET_ALLOW));
            if (syscall(SYS_getpgid, 0) != -1 || errno != EXDEV) _exit(1);
            execl("/proc/self/exe", "image", "7", "confined", NULL);
            _exit(2);
        }
        CHECK_CHILD(pid);
        make_calls();
        // And one that dies by its filter.
        pid = vfork();
        if (pid == 0) {
            INSTALL(ANSWER(SYS_getpgid, SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW));
            syscall(SYS_getpgid, 0);
            _exit(2);
        }
        int status = wait_for(pid);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
        make_calls();
    }
}

// All threads at once, while they make calls and take signals.
static volatile int confined;
static void *call_until_confined(void *unused) {
    (void)unused;
    long refused = 0;
    while (!confined || refused < 10) {
        long result = syscall(SYS_getpgid, 0);
        CHECK(result > 0 || (result == -1 && errno == EXDEV));
        CHECK(!confined || refused == 0 || result == -1);
        refused += result == -1;
    }
    return NULL;
}
static void all_threads(void) {
    pthread_t threads[4];
    handle(SIGALRM, count, SA_RESTART | SA_ONSTACK);
    struct itimerval often = {{0, 1000}, {0, 1000}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, call_until_confined, NULL) == 0);
    usleep(10000);
    CHECK(INSTALL_WITH(SECCOMP_FILTER_FLAG_TSYNC, ANSWER(SYS_getpgid, SECCOMP_RET_ERRNO | EXDEV),
                       RETURN(SECCOMP_RET_ALLOW)) == 0);
    confined = 1;
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    while (seen < 20) CHECK(syscall(SYS_getpgid, 0) == -1 && errno == EXDEV);
}

// Strict mode, with a handler that returns.
static void strict(void) {
    handle(SIGALRM, count, 0);
    struct itimerval often = {{0, 2000}, {0, 2000}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    while (seen < 20) syscall(SYS_write, -1, "", 0);
    syscall(SYS_exit, 5);
}

// The program's own dispatch, with the selector changed by its handler.
static volatile char selector;
static void serve(int signal, siginfo_t *info, void *context) {
    CHECK(signal == SIGSYS && info->si_code == 2 && info->si_syscall == SYS_getpgid);
    selector = 0;
    make_calls();
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 4711 + seen++;
    selector = 1;
}
static void own_dispatch(void) {
    extern char begin_back[], end_back[];
    use_alternate_stack();
    handle(SIGSYS, serve, SA_ONSTACK);
    // The way back from handlers is a call as well: where it is made from must be let through.
    struct sigaction action;
    CHECK(syscall(SYS_rt_sigaction, SIGSYS, NULL, &action, 8) == 0);
    void *restorer = (void *)((unsigned long *)&action)[2];
    unsigned long page = (unsigned long)restorer & ~4095UL;
    CHECK(prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, page, 8192, &selector) == 0);
    for (int i = 0; i < 30; i++) {
        long result;
        selector = 1;
        __asm__ volatile("begin_back: syscall; end_back:" : "=a"(result) : "0"((long)SYS_getpgid), "D"(0L) : "rcx", "r11", "memory");
        selector = 0;
        CHECK(result == 4711 + i && seen == i + 1 && end_back - begin_back == 2);
        make_calls();
    }
    CHECK(prctl(PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0) == 0);
    selector = 1;
    make_calls();
}

// Handlers on the alternate stack that interrupt themselves.
static void recurse(int signal, siginfo_t *info, void *context) {
    (void)info, (void)context;
    if (++depth > deepest) deepest = depth;
    CHECK(depth > 12 || raise(signal) == 0);
    make_calls();
    depth--;
}
static void recursion(void) {
    use_alternate_stack();
    handle(SIGUSR1, recurse, SA_ONSTACK | SA_NODEFER);
    CHECK(raise(SIGUSR1) == 0 && deepest == 13 && depth == 0);
    stack_t now;
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_flags == 0);
}
// Out of such a recursion by a jump, again and again.
static sigjmp_buf back;
static void recurse_and_leave(int signal, siginfo_t *info, void *context) {
    (void)info, (void)context;
    if (++depth > 5) siglongjmp(back, 1);
    CHECK(raise(signal) == 0);
}
static void jump_out(void) {
    use_alternate_stack();
    handle(SIGUSR1, recurse_and_leave, SA_ONSTACK | SA_NODEFER);
    for (volatile int i = 0; i < 20; i++) {
        depth = 0;
        if (sigsetjmp(back, i % 2) == 0) raise(SIGUSR1), _exit(1);
        CHECK(depth == 6);
        stack_t now;
        CHECK(sigaltstack(NULL, &now) == 0 && now.ss_flags == 0);
        make_calls();
    }
}
// From one handler's stack into a context of before, and on to another one.
static ucontext_t first, other;
static void switch_context(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    seen++;
    setcontext(&other);
}
static char other_stack[1 << 16];
static void run_other(void) {
    make_calls();
    setcontext(&first);
}
static void contexts(void) {
    use_alternate_stack();
    handle(SIGUSR1, switch_context, SA_ONSTACK);
    for (volatile int i = 0; i < 10; i++) {
        CHECK(getcontext(&other) == 0);
        other.uc_stack.ss_sp = other_stack, other.uc_stack.ss_size = sizeof other_stack;
        makecontext(&other, run_other, 0);
        volatile int returned = 0;
        CHECK(getcontext(&first) == 0);
        if (!returned++) raise(SIGUSR1), _exit(1);
        CHECK(seen == i + 1);
    }
}

// A frame of the program's own making: sigreturn goes where it says.
static long target_reached;
static void reached(void) {
    target_reached++;
    make_calls();
    syscall(SYS_exit_group, 8);
}
static void take_frame(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ucontext_t *frame = context;
    // Another place, another stack, another mask.
    frame->uc_mcontext.gregs[REG_RIP] = (greg_t)reached;
    frame->uc_mcontext.gregs[REG_RSP] = (greg_t)(other_stack + sizeof other_stack - 256) | 8;
    sigaddset(&frame->uc_sigmask, SIGUSR2);
}
static void made_frame(void) {
    handle(SIGUSR1, take_frame, 0);
    raise(SIGUSR1);
}
static void wrong_frame(void) {
    // No frame is there: the kernel ends who says so.
    __asm__ volatile("mov $8, %%rsp; mov %0, %%eax; syscall" : : "i"(SYS_rt_sigreturn) : "rax", "rcx", "r11");
}
static void segments_changed(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    // A code segment that there is not: a fault, whose handler is not asked.
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_CSGSFS] = 0x0007;
}
static void wrong_segment(void) {
    handle(SIGUSR1, segments_changed, 0);
    raise(SIGUSR1);
}

// Signals as something to read, while calls are caught by one of them.
static void signal_descriptors(void) {
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR1), sigaddset(&set, SIGRTMIN + 2), sigaddset(&set, SIGSYS);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    struct signalfd_siginfo info;
    CHECK(fd >= 0 && read(fd, &info, sizeof info) == -1 && errno == EAGAIN);
    for (int i = 0; i < 10; i++) {
        make_calls();
        CHECK(sigqueue(getpid(), SIGRTMIN + 2, (union sigval){.sival_int = i}) == 0 && raise(SIGUSR1) == 0);
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        CHECK(poll(&ready, 1, 1000) == 1);
        CHECK(read(fd, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR1);
        CHECK(read(fd, &info, sizeof info) == sizeof info && info.ssi_int == i);
        CHECK(read(fd, &info, sizeof info) == -1 && errno == EAGAIN);
    }
}

int main(int argc, char **argv) {
    begin(argc, argv);
    if (argc > 2) {
        CHECK(syscall(SYS_getpgid, 0) == -1 && errno == EXDEV);
        return 0;
    }
    CHECK(setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) == 0);
    int fd = open("given", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, "given", 5) == 5 && close(fd) == 0);
#define CASE(f) {#f, f}
    static const struct { const char *name; void (*run)(void); } cases[] = {
        CASE(given_descriptors), CASE(interrupted_question), CASE(confined_spawns), CASE(all_threads),
        CASE(strict), CASE(own_dispatch), CASE(recursion), CASE(jump_out), CASE(contexts),
        CASE(made_frame), CASE(wrong_frame), CASE(wrong_segment), CASE(signal_descriptors),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_case(cases[i].name, cases[i].run);
    }
    return 0;
}
