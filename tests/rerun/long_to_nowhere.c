// Writes a long buffer where nobody looks at it.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 1 << 20 };

int main(void) {
    int null = open("/dev/null", O_WRONLY);
    char *bytes = malloc(SIZE);
    if (null < 0 || !bytes) return 1;
    memset(bytes, 'x', SIZE);
    for (int i = 0; i < 300; i++) {
        if (write(null, bytes, SIZE) != SIZE) return 1;
    }
    return 0;
}
