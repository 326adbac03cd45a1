// epoll, eventfd, timerfd, signalfd and inotify.
#include "expect.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    int set = epoll_create1(EPOLL_CLOEXEC);
    CHECK(set >= 0);
    EXPECT("epoll_create1", set, TEXT("EPOLL_CLOEXEC"));
    int counter = eventfd(3, EFD_NONBLOCK);
    CHECK(counter >= 0);
    EXPECT("eventfd2", counter);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = random_word()};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, counter, &event) == 0);
    EXPECT("epoll_ctl", 0, DATA(&event, sizeof event), TEXT("EPOLL_CTL_ADD"));
    struct epoll_event ready[8];
    CHECK(syscall(SYS_epoll_wait, set, ready, 8, 1000) == 1 && ready[0].data.u64 == event.data.u64);
    EXPECT("epoll_wait", 1, DATA(ready, sizeof *ready));
    uint64_t value;
    CHECK(read(counter, &value, sizeof value) == sizeof value && value == 3);
    EXPECT("read", 8, DATA(&value, sizeof value));
    value = random_len(1000);
    CHECK(write(counter, &value, sizeof value) == sizeof value);
    EXPECT("write", 8, DATA(&value, sizeof value));
    CHECK(syscall(SYS_epoll_pwait, set, ready, 8, 1000, NULL, 8) == 1);
    EXPECT("epoll_pwait", 1, DATA(ready, sizeof *ready));
    struct timespec soon = {0, 1000000};
    CHECK(syscall(SYS_epoll_pwait2, set, ready, 8, &soon, NULL, 8) == 0);
    EXPECT("epoll_pwait2", 0, DATA(&soon, sizeof soon));

    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    CHECK(timer >= 0);
    struct itimerspec when = {{0, 0}, {0, 2000000}}, before;
    CHECK(timerfd_settime(timer, 0, &when, &before) == 0);
    EXPECT("timerfd_settime", 0, DATA(&when, sizeof when), DATA(&before, sizeof before));
    CHECK(read(timer, &value, sizeof value) == sizeof value && value >= 1);
    CHECK(timerfd_gettime(timer, &when) == 0);
    EXPECT("timerfd_gettime", 0, DATA(&when, sizeof when));

    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &mask, NULL) == 0);
    int signals = signalfd(-1, &mask, SFD_CLOEXEC);
    CHECK(signals >= 0);
    EXPECT("signalfd4", signals);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    struct signalfd_siginfo info;
    CHECK(read(signals, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR1);
    EXPECT("read", sizeof info, DATA(&info, sizeof info));

    int watch = inotify_init1(0);
    CHECK(watch >= 0 && inotify_add_watch(watch, ".", IN_CREATE) >= 0);
    EXPECT("inotify_add_watch", 1, TEXT("IN_CREATE"));
    CHECK(close(creat("created", 0600)) == 0);
    char notes[512];
    ssize_t n = read(watch, notes, sizeof notes);
    CHECK(n > 0);
    EXPECT("read", n, DATA(notes, (size_t)n));
    return 0;
}
