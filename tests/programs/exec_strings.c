// execve, execveat and scripts: every argument and every variable arrives, and is recorded.
#include "expect.h"

static char argument[3000], variable[3000];

static void letters(char *into, size_t len) {
    for (size_t i = 0; i < len; i++) into[i] = (char)('a' + random_word() % 26);
    into[len] = 0;
}

// More strings than calls of other kinds have buffers.
enum { MANY = 20000 };

static int check_many(int argc, char **argv) {
    CHECK(argc == MANY);
    for (int i = 3; i < MANY; i++) CHECK(atoi(argv[i]) == i);
    return 0;
}

static int check_strings(int argc, char **argv) {
    letters(argument, 1500);
    letters(variable, 2000);
    CHECK(argc == 5 && strcmp(argv[2], "again") == 0 && strcmp(argv[3], argument) == 0 && argv[4][0] == 0);
    const char *found = getenv("REENACT_TEST_VARIABLE");
    CHECK(found && strcmp(found, variable) == 0 && !getenv("HOME"));
    return 0;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    if (argc > 2 && strcmp(argv[2], "many") == 0) return check_many(argc, argv);
    if (argc > 2) return check_strings(argc, argv);
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(n > 0);
    self[n] = 0;
    letters(argument, 1500);
    letters(variable, 2000);
    char assignment[4000];
    snprintf(assignment, sizeof assignment, "REENACT_TEST_VARIABLE=%s", variable);
    char *args[] = {"anything", argv[1], "again", argument, "", NULL};
    char *variables[] = {assignment, NULL};
    EXPECT("execve", ANY, TEXT("again"), TEXT(argument), TEXT(variable), TEXT("anything"));
    pid_t pid = fork();
    if (pid == 0) {
        execve(self, args, variables);
        _exit(1);
    }
    CHECK_CHILD(pid);
    int fd = open(self, O_PATH | O_CLOEXEC);
    CHECK(fd >= 0);
    EXPECT("execveat", ANY, TEXT("AT_EMPTY_PATH"), TEXT(argument));
    pid = fork();
    if (pid == 0) {
        syscall(SYS_execveat, fd, "", args, variables, AT_EMPTY_PATH);
        _exit(1);
    }
    CHECK_CHILD(pid);
    static char numbers[MANY][8];
    static char *many[MANY + 1];
    for (int i = 0; i < MANY; i++) many[i] = (snprintf(numbers[i], 8, "%d", i), numbers[i]);
    many[1] = argv[1];
    many[2] = (char[]){"many"};
    EXPECT("execve", ANY, TEXT("many"), TEXT("19999"));
    pid = fork();
    if (pid == 0) {
        execve(self, many, variables);
        _exit(1);
    }
    CHECK_CHILD(pid);
    FILE *script = fopen("script", "w");
    CHECK(script && fprintf(script, "#!/bin/sh\nexit $(($1 - 11))\n") > 0 && fclose(script) == 0);
    CHECK(chmod("script", 0700) == 0);
    pid = fork();
    if (pid == 0) {
        execl("./script", "script", "53", NULL);
        _exit(1);
    }
    EXPECT("execve", ANY, TEXT("./script"));
    int status = wait_for(pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    CHECK(execl("./absent", "absent", NULL) == -1 && errno == ENOENT);
    EXPECT_ERRNO("execve", ENOENT, TEXT("./absent"));
    CHECK(execl(".", "directory", NULL) == -1 && errno == EACCES);
    EXPECT_ERRNO("execve", EACCES);
    return 0;
}
