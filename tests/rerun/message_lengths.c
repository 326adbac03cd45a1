// Messages in batches: how much of each was sent and received, whole, cut short, and with an address.
#define _GNU_SOURCE
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MANY 3

static void must(int yes) {
    if (!yes) abort();
}

int main(void) {
    int one = socket(AF_INET, SOCK_DGRAM, 0), other = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof here;
    must(bind(one, (struct sockaddr *)&here, len) == 0);
    must(getsockname(one, (struct sockaddr *)&here, &len) == 0);
    char words[MANY][8] = {"a", "three", "seven77"}, room[MANY][5];
    struct iovec vectors[MANY];
    struct mmsghdr sent[MANY] = {0}, got[MANY] = {0};
    struct sockaddr_in from[MANY];
    for (int i = 0; i < MANY; i++) {
        vectors[i] = (struct iovec){words[i], strlen(words[i])};
        sent[i].msg_hdr = (struct msghdr){&here, sizeof here, &vectors[i], 1, NULL, 0, 0};
    }
    int count = sendmmsg(other, sent, MANY, 0);
    printf("%d sent: %u %u %u\n", count, sent[0].msg_len, sent[1].msg_len, sent[2].msg_len);
    for (int i = 0; i < MANY; i++) {
        vectors[i] = (struct iovec){room[i], sizeof room[i]};
        got[i].msg_hdr = (struct msghdr){&from[i], sizeof from[i], &vectors[i], 1, NULL, 0, 0};
    }
    // The last one does not fit, and its whole length is told.
    count = recvmmsg(one, got, MANY, MSG_TRUNC, NULL);
    for (int i = 0; i < count; i++) {
        printf("%u bytes, flags %x, from port %d: %.*s\n", got[i].msg_len, got[i].msg_hdr.msg_flags,
               ntohs(from[i].sin_port), (int)(got[i].msg_len < 5 ? got[i].msg_len : 5), room[i]);
    }
    fflush(stdout);
    for (int i = 0; i < count; i++) must(got[i].msg_len == strlen(words[i]) && sent[i].msg_len == got[i].msg_len);
    return 0;
}
