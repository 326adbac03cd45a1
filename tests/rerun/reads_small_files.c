/* Reads files that are named by numbers, as many as argv[1] says and each about twice, in an order that looks
 * like chance but is the same each time. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **words)
{
    unsigned long files = count > 1 ? strtoul(words[1], NULL, 10) : 0, state = 1;
    char name[32], bytes[4096];

    for (unsigned long i = 0; i < 2 * files; i++) {
        state = state * 6364136223846793005 + 1442695040888963407;
        snprintf(name, sizeof name, "%lu", (state >> 33) % files);
        int file = open(name, O_RDONLY);
        if (file < 0 || read(file, bytes, sizeof bytes) != sizeof bytes)
            return 1;
        close(file);
    }
    return 0;
}
