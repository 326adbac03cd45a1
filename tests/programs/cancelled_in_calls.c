// Threads that are cancelled in calls that wait: the stack is unwound from within the call, and what
// they have to do on the way out is done in order. So it is when a handler unwinds it.
// flags: -pthread -fexceptions -fnon-call-exceptions
// count: off
#include "expect.h"
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/socket.h>
#include <unwind.h>

static int ends[2];
static __thread char order[8];

static void leave(char *name) { order[strlen(order)] = *name; }
static void outermost(void *at) {
    leave(&(char){'c'});
    strcpy(at, order);
}

typedef void (*wait_call)(void);

static void in_read(void) {
    char byte;
    CHECK(read(ends[0], &byte, 1) < 0);
}
static void in_poll(void) {
    struct pollfd fd = {.fd = ends[0], .events = POLLIN};
    CHECK(poll(&fd, 1, -1) < 0);
}
static void in_select(void) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    CHECK(select(ends[0] + 1, &set, NULL, NULL, NULL) < 0);
}
static void in_nanosleep(void) {
    struct timespec time = {.tv_sec = 1000};
    CHECK(nanosleep(&time, NULL) < 0);
}
static void in_pause(void) { pause(); }
static void in_sigwait(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigwaitinfo(&set, NULL);
}
static void in_waitpid(void) {
    int status;
    waitpid(-1, &status, 0);
}
static void in_recv(void) {
    char byte;
    CHECK(recv(ends[0], &byte, 1, 0) < 0);
}
static void in_semaphore(void) {
    static sem_t semaphore;
    sem_wait(&semaphore);
}

static const wait_call waits[] = {in_read,  in_poll,    in_select,  in_nanosleep, in_pause,
                                  in_sigwait, in_waitpid, in_recv, in_semaphore};

__attribute__((noinline)) static void inner(wait_call wait) {
    __attribute__((cleanup(leave))) char name = 'a';
    wait();
    name = 'x';
}

__attribute__((noinline)) static void outer(wait_call wait) {
    __attribute__((cleanup(leave))) char name = 'b';
    inner(wait);
    name = 'y';
}

struct task {
    wait_call wait;
    volatile pid_t tid;
    char order[8];
};

static void *is_cancelled(void *argument) {
    struct task *task = argument;
    pthread_cleanup_push(outermost, task->order);
    task->tid = gettid();
    outer(task->wait);
    pthread_cleanup_pop(0);
    return NULL;
}

// Until the thread sleeps in its call.
static void wait_until_asleep(pid_t tid) {
    char path[64], text[512], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    do {
        usleep(1000);
        int fd = open(path, O_RDONLY);
        CHECK(fd >= 0);
        ssize_t len = read(fd, text, sizeof text - 1);
        CHECK(len > 0 && close(fd) == 0);
        text[len] = 0;
        state = strrchr(text, ')')[2];
    } while (state != 'S');
}

// A handler that leaves by unwinding, as an exception that is thrown there.
static __thread void *back[5];
static __thread struct _Unwind_Exception exception;
static __thread int steps;

static _Unwind_Reason_Code at_frame(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                    struct _Unwind_Exception *object,
                                    struct _Unwind_Context *context, void *unused) {
    (void)version, (void)class, (void)object, (void)context, (void)unused;
    if (actions & _UA_END_OF_STACK || ++steps > 100) abort();
    if (strlen(order) == 2) __builtin_longjmp(back, 1);
    return _URC_NO_REASON;
}

static void throws(int signal) {
    (void)signal;
    _Unwind_ForcedUnwind(&exception, at_frame, NULL);
    abort();
}

static void *is_thrown_out(void *argument) {
    struct task *task = argument;
    if (__builtin_setjmp(back) == 0) {
        task->tid = gettid();
        outer(task->wait);
    }
    strcpy(task->order, order);
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    struct sigaction action = {.sa_handler = throws, .sa_flags = SA_NODEFER};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        // Who waits for children needs one that lives.
        close(ends[1]);
        char byte;
        _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
    }
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        for (int thrown = 0; thrown < 2; thrown++) {
            struct task task = {.wait = waits[i]};
            pthread_t thread;
            CHECK(!pthread_create(&thread, NULL, thrown ? is_thrown_out : is_cancelled, &task));
            while (!task.tid) usleep(100);
            wait_until_asleep(task.tid);
            CHECK(thrown ? !pthread_kill(thread, SIGUSR1) : !pthread_cancel(thread));
            void *result;
            CHECK(pthread_join(thread, &result) == 0);
            CHECK(result == (thrown ? NULL : PTHREAD_CANCELED));
            printf("%zu %s: %s\n", i, thrown ? "thrown" : "cancelled", task.order);
            CHECK(strncmp(task.order, "ab", 2) == 0);
        }
    }
    close(ends[0]);
    close(ends[1]);
    CHECK_CHILD(child);
    return 0;
}
