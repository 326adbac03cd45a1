// shows: duplicate_content
#include "pattern.h"

// A journal repeats what the database has; nothing could refer to what is gone at the end.
static void journal(void) {
    int fd = new_file("journal");
    for (int n = 0; n < 100; n++) CHECK(write(fd, page, 4096) == 4096);
    CHECK(close(fd) == 0);
    CHECK(unlink("journal") == 0);
}

int main(int argc, char **argv) {
    int same = shows(argc, argv), fd = new_file("copies");
    journal();
    for (int n = 0; n < 100; n++) CHECK(write(fd, same ? page : fresh(), 4096) == 4096);
    return 0;
}
