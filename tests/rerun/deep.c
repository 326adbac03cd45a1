// Goes down so far that no path leads there, and makes a file at the bottom: "deep DEPTH".
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int depth = argc > 1 ? atoi(argv[1]) : 2000;
    for (int i = 0; i < depth; i++)
        if (mkdir("directory", 0755) != 0 || chdir("directory") != 0) return perror("directory"), 1;
    int fd = open("bottom", O_RDWR | O_CREAT | O_EXCL, 0644);
    if (fd < 0 || write(fd, "deep\n", 5) != 5) return perror("bottom"), 1;
    char there[6] = "";
    if (pread(fd, there, 5, 0) != 5) return perror("bottom"), 1;
    printf("%d: %s", depth, there);
    return 0;
}
