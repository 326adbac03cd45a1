// Opens files that nobody has used before, maps each as a program's text, and closes it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int count, char **files) {
    for (int i = 1; i < count; i++) {
        int file = open(files[i], O_RDONLY);
        if (file < 0) return 1;
        void *text = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
        if (text == MAP_FAILED || close(file) || munmap(text, 4096)) return 1;
    }
    return 0;
}
