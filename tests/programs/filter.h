// Filters of the program's own, for the test programs that sandbox themselves.
#pragma once
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#ifndef SYS_SECCOMP
#define SYS_SECCOMP 1
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
// Skips so many instructions if the value is this one, and so many if it is not.
#define IF(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
// What a call is answered with, given that its number is loaded.
#define ANSWER(nr, what) IF(nr, 0, 1), RETURN(what)
#define ALLOW(nr) ANSWER(nr, SECCOMP_RET_ALLOW)

#define INSTALL_WITH(flags, ...)                                                          \
    ({                                                                                    \
        struct sock_filter filter_[] = {LOAD(nr), __VA_ARGS__};                           \
        struct sock_fprog program_ = {sizeof filter_ / sizeof *filter_, filter_};         \
        CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);                               \
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program_);                  \
    })
#define INSTALL(...) CHECK(INSTALL_WITH(0, __VA_ARGS__) == 0)
