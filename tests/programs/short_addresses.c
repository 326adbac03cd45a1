// Addresses that are longer than the room for them: the kernel writes what fits, and how long they are.
#define _GNU_SOURCE
#include "expect.h"
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

// Room for an address, and bytes behind it that are none of it.
static struct { char room[6], behind[122]; } got;

static socklen_t fresh(void) {
    memset(&got, '#', sizeof got);
    return sizeof got.room;
}

static struct msghdr message(struct iovec *bytes) {
    return (struct msghdr){.msg_name = &got, .msg_namelen = fresh(), .msg_iov = bytes, .msg_iovlen = 1};
}

int main(int argc, char **argv) {
    begin(argc, argv);
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "an address with a long name"};
    socklen_t whole = offsetof(struct sockaddr_un, sun_path) + strlen(name.sun_path) + 1, len = fresh();
    int one = socket(AF_UNIX, SOCK_DGRAM, 0), two = socket(AF_UNIX, SOCK_DGRAM, 0);
    CHECK(one >= 0 && two >= 0 && bind(one, (struct sockaddr *)&name, whole) == 0);
    CHECK(getsockname(one, (void *)&got, &len) == 0 && len == whole && got.behind[0] == '#');
    EXPECT("getsockname", 0, DATA(got.room, sizeof got.room));
    CHECK(connect(two, (struct sockaddr *)&name, whole) == 0);
    len = fresh();
    CHECK(getpeername(two, (void *)&got, &len) == 0 && len == whole && got.behind[0] == '#');
    EXPECT("getpeername", 0, DATA(got.room, sizeof got.room));

    // From a socket that has the name to one that has another.
    struct sockaddr_un other = {.sun_family = AF_UNIX, .sun_path = "b"};
    CHECK(bind(two, (struct sockaddr *)&other, sizeof other) == 0);
    for (int i = 0; i < 3; i++) CHECK(sendto(one, "data", 4, 0, (struct sockaddr *)&other, sizeof other) == 4);
    char in[8];
    len = fresh();
    CHECK(recvfrom(two, in, sizeof in, 0, (void *)&got, &len) == 4 && len == whole && got.behind[0] == '#');
    EXPECT("recvfrom", 4, DATA("data", 4), DATA(got.room, sizeof got.room));
    struct iovec bytes = {in, sizeof in};
    struct msghdr single = message(&bytes);
    CHECK(recvmsg(two, &single, 0) == 4 && single.msg_namelen == whole && got.behind[0] == '#');
    EXPECT("recvmsg", 4, DATA("data", 4), DATA(got.room, sizeof got.room));
    struct mmsghdr several = {.msg_hdr = message(&bytes)};
    CHECK(recvmmsg(two, &several, 1, 0, NULL) == 1 && several.msg_hdr.msg_namelen == whole);
    CHECK(got.behind[0] == '#');
    EXPECT("recvmmsg", 1, DATA("data", 4), DATA(got.room, sizeof got.room));

    // An option that is cut off is as long as its room.
    int type = 0x23232323;
    len = 2;
    CHECK(getsockopt(two, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && len == 2);
    EXPECT("getsockopt", 0, DATA(&type, 2));
    return 0;
}
