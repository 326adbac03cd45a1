// sendmsg, recvmsg and the many-message calls: vectors, addresses, descriptors and credentials.
#include "expect.h"
#include <sys/socket.h>
#include <sys/un.h>

static char out[20000], in[20000], control_out[256], control_in[256];

static struct msghdr header(char *bytes, size_t len, struct iovec *vector, char *control, size_t control_len) {
    vector[0] = (struct iovec){bytes, len / 3};
    vector[1] = (struct iovec){bytes + len / 3, len - len / 3};
    return (struct msghdr){.msg_iov = vector, .msg_iovlen = 2, .msg_control = control, .msg_controllen = control_len};
}

static void one_by_one(void) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    EXPECT("socketpair", 0, DATA(pair, sizeof pair), TEXT("SOCK_SEQPACKET"));
    int yes = 1;
    CHECK(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) == 0);
    int passed = open("passed", O_RDWR | O_CREAT, 0600);
    CHECK(passed >= 0);
    struct iovec vector[2];
    for (int i = 0; i < 10; i++) {
        size_t len = 2 + random_len(10000);
        fill(out, len);
        memset(control_out, 0, sizeof control_out);
        struct msghdr sent = header(out, len, vector, control_out, CMSG_SPACE(sizeof(int)));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&sent);
        *rights = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(rights), &passed, sizeof passed);
        CHECK(sendmsg(pair[0], &sent, 0) == (ssize_t)len);
        EXPECT("sendmsg", len, DATA(out, len), DATA(control_out, sent.msg_controllen));
        memset(control_in, 0, sizeof control_in);
        struct msghdr got = header(in, len, vector, control_in, sizeof control_in);
        CHECK(recvmsg(pair[1], &got, MSG_CMSG_CLOEXEC) == (ssize_t)len);
        CHECK(memcmp(in, out, len) == 0);
        EXPECT("recvmsg", len, DATA(out, len), DATA(control_in, got.msg_controllen), TEXT("MSG_CMSG_CLOEXEC"));
        int received = -1, credentials = 0;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&got); c; c = CMSG_NXTHDR(&got, c)) {
            if (c->cmsg_type == SCM_RIGHTS) memcpy(&received, CMSG_DATA(c), sizeof received);
            if (c->cmsg_type == SCM_CREDENTIALS) credentials++;
        }
        CHECK(credentials == 1 && received > 2 && write(received, "x", 1) == 1 && close(received) == 0);
    }
}

static void with_credentials(void) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    struct ucred own = {getpid(), getuid(), getgid()};
    struct iovec vector[2];
    struct msghdr sent = header(out, 6, vector, control_out, CMSG_SPACE(sizeof own));
    struct cmsghdr *told = CMSG_FIRSTHDR(&sent);
    *told = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_CREDENTIALS, .cmsg_len = CMSG_LEN(sizeof own)};
    memcpy(CMSG_DATA(told), &own, sizeof own);
    CHECK(sendmsg(pair[0], &sent, 0) == 6);
    EXPECT("sendmsg", 6, TEXT("SCM_CREDENTIALS"));
    CHECK(read(pair[1], in, sizeof in) == 6);
    EXPECT("read", 6, DATA(out, 6));
}

static void many_at_once(void) {
    enum { MANY = 12 };
    int receiver = socket(AF_UNIX, SOCK_DGRAM, 0), sender = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct sockaddr_un here = {.sun_family = AF_UNIX, .sun_path = "receiver"};
    struct sockaddr_un there = {.sun_family = AF_UNIX, .sun_path = "sender"};
    CHECK(bind(receiver, (struct sockaddr *)&here, sizeof here) == 0);
    CHECK(bind(sender, (struct sockaddr *)&there, sizeof there) == 0);
    struct mmsghdr messages[MANY] = {0};
    struct iovec vectors[MANY][2];
    size_t lens[MANY], at = 0;
    for (int i = 0; i < MANY; i++) {
        lens[i] = 2 + random_len(900);
        messages[i].msg_hdr = header(out + at, lens[i], vectors[i], NULL, 0);
        messages[i].msg_hdr.msg_name = &here;
        messages[i].msg_hdr.msg_namelen = sizeof here;
        at += lens[i];
    }
    fill(out, at);
    // The queue of a Unix socket is short: send in two goes.
    for (int go = 0; go < 2; go++) {
        CHECK(sendmmsg(sender, messages + go * MANY / 2, MANY / 2, 0) == MANY / 2);
        size_t first = 0;
        for (int i = 0; i < go * MANY / 2; i++) first += lens[i];
        EXPECT("sendmmsg", MANY / 2, DATA(out + first, lens[go * MANY / 2]), DATA(&here, sizeof here));
        struct mmsghdr got[MANY / 2] = {0};
        struct sockaddr_un names[MANY / 2];
        struct iovec parts[MANY / 2][2];
        for (int i = 0; i < MANY / 2; i++) {
            got[i].msg_hdr = header(in + 1000 * i, lens[go * MANY / 2 + i], parts[i], NULL, 0);
            got[i].msg_hdr.msg_name = &names[i];
            got[i].msg_hdr.msg_namelen = sizeof names[i];
        }
        struct timespec soon = {5, 0};
        CHECK(recvmmsg(receiver, got, MANY / 2, 0, &soon) == MANY / 2);
        for (int i = 0, next = (int)first; i < MANY / 2; next += (int)lens[go * MANY / 2 + i], i++) {
            CHECK(got[i].msg_len == lens[go * MANY / 2 + i]);
            CHECK(memcmp(in + 1000 * i, out + next, got[i].msg_len) == 0);
        }
        EXPECT("recvmmsg", MANY / 2, DATA(in, lens[go * MANY / 2]),
               DATA(&names[0], got[0].msg_hdr.msg_namelen), TEXT("sender"));
    }
}

int main(int argc, char **argv) {
    begin(argc, argv);
    one_by_one();
    with_credentials();
    many_at_once();
    return 0;
}
