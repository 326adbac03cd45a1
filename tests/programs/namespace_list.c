// The ids of namespaces: a request by a struct that has its own size, a list that the kernel fills.
// Linux before 6.19 does not have the call, nor an older strace its name.
// count: off
#include "expect.h"
#include <sched.h>

#define LISTNS 470
#define IDS_MAX 64

struct request {
    uint32_t size, type;
    uint64_t id, user_id;
};

int main(int argc, char **argv) {
    begin(argc, argv);
    struct request request = {sizeof request, CLONE_NEWUTS | CLONE_NEWNET, 0, 0};
    uint64_t ids[IDS_MAX];
    long count = syscall(LISTNS, &request, ids, (size_t)IDS_MAX, 0);
    if (count < 0 && errno == ENOSYS) {
        EXPECT_ERRNO("listns", ENOSYS, DATA(&request, sizeof request), TEXT("CLONE_NEWUTS"),
                     TEXT("CLONE_NEWNET"));
        return 0;
    }
    CHECK(count > 0 && count <= IDS_MAX);
    EXPECT("listns", count, DATA(&request, sizeof request), DATA(ids, (size_t)count * sizeof *ids),
           TEXT("CLONE_NEWUTS"), TEXT("CLONE_NEWNET"));
    return 0;
}
