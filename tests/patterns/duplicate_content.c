// shows: duplicate_content
#include "pattern.h"

int main(int argc, char **argv) {
    int same = shows(argc, argv), fd = new_file("copies");
    for (int n = 0; n < 100; n++) CHECK(write(fd, same ? page : fresh(), 4096) == 4096);
    return 0;
}
