// shows: compressible
#include "pattern.h"

int main(int argc, char **argv) {
    int packable = shows(argc, argv), fd = new_file("text");
    if (packable) memset(page, 'x', sizeof page);
    for (int n = 0; n < 40; n++) CHECK(write(fd, fresh(), sizeof page) == (ssize_t)sizeof page);
    return 0;
}
