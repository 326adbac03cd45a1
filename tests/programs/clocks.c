// Clocks, sleeps and timers: every timespec, timeval and itimerspec.
#include "expect.h"
#include <sys/time.h>
#include <sys/times.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    struct timespec ts;
    CHECK(syscall(SYS_clock_gettime, CLOCK_REALTIME, &ts) == 0);
    EXPECT("clock_gettime", 0, DATA(&ts, sizeof ts), TEXT("CLOCK_REALTIME"));
    CHECK(syscall(SYS_clock_getres, CLOCK_MONOTONIC, &ts) == 0);
    EXPECT("clock_getres", 0, DATA(&ts, sizeof ts), TEXT("CLOCK_MONOTONIC"));
    struct timeval tv;
    struct timezone tz;
    CHECK(syscall(SYS_gettimeofday, &tv, &tz) == 0);
    EXPECT("gettimeofday", 0, DATA(&tv, sizeof tv), DATA(&tz, sizeof tz));
    time_t seconds;
    long now = syscall(SYS_time, &seconds);
    CHECK(now == seconds);
    EXPECT("time", now, DATA(&seconds, sizeof seconds));
    struct tms used;
    long ticks = syscall(SYS_times, &used);
    EXPECT("times", ticks, DATA(&used, sizeof used));
    ts = (struct timespec){0, 1000000 + (long)random_len(100000)};
    CHECK(syscall(SYS_nanosleep, &ts, NULL) == 0);
    EXPECT("nanosleep", 0, DATA(&ts, sizeof ts));
    CHECK(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &ts, NULL) == 0);
    EXPECT("clock_nanosleep", 0, DATA(&ts, sizeof ts));
    struct itimerval interval = {{100, 7}, {1000, 9}}, before;
    CHECK(setitimer(ITIMER_REAL, &interval, &before) == 0);
    EXPECT("setitimer", 0, DATA(&interval, sizeof interval), DATA(&before, sizeof before));
    CHECK(getitimer(ITIMER_REAL, &before) == 0);
    EXPECT("getitimer", 0, DATA(&before, sizeof before));
    memset(&interval, 0, sizeof interval);
    CHECK(setitimer(ITIMER_REAL, &interval, NULL) == 0);
    struct sigevent how = {.sigev_notify = SIGEV_NONE};
    int timer;
    CHECK(syscall(SYS_timer_create, CLOCK_MONOTONIC, &how, &timer) == 0);
    EXPECT("timer_create", 0, DATA(&timer, sizeof timer));
    struct itimerspec due = {{0, 0}, {500, 1}}, old;
    CHECK(syscall(SYS_timer_settime, timer, 0, &due, &old) == 0);
    EXPECT("timer_settime", 0, DATA(&due, sizeof due), DATA(&old, sizeof old));
    CHECK(syscall(SYS_timer_gettime, timer, &old) == 0);
    EXPECT("timer_gettime", 0, DATA(&old, sizeof old));
    CHECK(syscall(SYS_timer_getoverrun, timer) == 0 && syscall(SYS_timer_delete, timer) == 0);
    EXPECT("timer_delete", 0);
    CHECK(syscall(SYS_alarm, 0) == 0);
    return 0;
}
