// System V and POSIX queues, semaphores and shared memory.
#include "expect.h"
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    struct {
        long type;
        char text[1000];
    } out = {.type = 7}, in;
    fill(out.text, sizeof out.text);
    int queue = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    CHECK(queue >= 0);
    EXPECT("msgget", queue, TEXT("IPC_CREAT"));
    CHECK(msgsnd(queue, &out, sizeof out.text, 0) == 0);
    EXPECT("msgsnd", 0, DATA(&out, sizeof out));
    CHECK(msgrcv(queue, &in, sizeof in.text, 7, 0) == sizeof in.text);
    CHECK(memcmp(&in, &out, sizeof in) == 0);
    EXPECT("msgrcv", sizeof in.text, DATA(&in, sizeof in));
    struct msqid_ds status;
    CHECK(msgctl(queue, IPC_STAT, &status) == 0);
    EXPECT("msgctl", 0, TEXT("IPC_STAT"));
    CHECK(msgctl(queue, IPC_RMID, NULL) == 0);
    EXPECT("msgctl", 0, TEXT("IPC_RMID"));

    int semaphores = semget(IPC_PRIVATE, 2, IPC_CREAT | 0600);
    CHECK(semaphores >= 0);
    struct sembuf ops[2] = {{0, 3, 0}, {1, 1, IPC_NOWAIT}};
    CHECK(syscall(SYS_semop, semaphores, ops, 2) == 0);
    EXPECT("semop", 0, DATA(ops, sizeof ops));
    CHECK(semctl(semaphores, 0, GETVAL) == 3);
    EXPECT("semctl", 3, TEXT("GETVAL"));
    unsigned short values[2], others[2] = {5, 6};
    CHECK(semctl(semaphores, 0, GETALL, values) == 0);
    CHECK(values[0] == 3 && values[1] == 1);
    EXPECT("semctl", 0, TEXT("GETALL"), DATA(values, sizeof values));
    CHECK(semctl(semaphores, 0, SETALL, others) == 0);
    EXPECT("semctl", 0, TEXT("SETALL"), DATA(others, sizeof others));
    CHECK(semctl(semaphores, 0, IPC_RMID) == 0);

    int segment = shmget(IPC_PRIVATE, 8192, IPC_CREAT | 0600);
    CHECK(segment >= 0);
    EXPECT("shmget", segment);
    char *memory = shmat(segment, NULL, 0);
    CHECK(memory != (void *)-1);
    EXPECT("shmat", (long)memory);
    memory[8191] = 1;
    CHECK(shmdt(memory) == 0 && shmctl(segment, IPC_RMID, NULL) == 0);
    EXPECT("shmdt", 0);

    struct mq_attr attributes = {.mq_maxmsg = 2, .mq_msgsize = 600}, got;
    char name[40];
    snprintf(name, sizeof name, "/reenact-%d", getpid());
    mqd_t mq = mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_NONBLOCK, 0600, &attributes);
    if (mq == (mqd_t)-1) {
        CHECK(errno == ENOSYS || errno == EMFILE);
        return 0;
    }
    EXPECT("mq_open", mq, TEXT(name + 1));
    CHECK(mq_send(mq, out.text, 500, 3) == 0);
    EXPECT("mq_timedsend", 0, DATA(out.text, 500));
    unsigned priority;
    CHECK(mq_receive(mq, in.text, sizeof in.text, &priority) == 500 && priority == 3);
    EXPECT("mq_timedreceive", 500, DATA(in.text, 500), DATA(&priority, sizeof priority));
    CHECK(mq_getattr(mq, &got) == 0 && got.mq_msgsize == 600);
    EXPECT("mq_getsetattr", 0);
    CHECK(mq_unlink(name) == 0);
    EXPECT("mq_unlink", 0);
    return 0;
}
