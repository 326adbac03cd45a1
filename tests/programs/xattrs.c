// needs: xattr
// Extended attributes: values in and out, lists, and sizes that are only asked for.
#include "expect.h"
#include <sys/xattr.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    char value[900], got[1000], list[1000];
    fill(value, sizeof value);
    CHECK(setxattr("file", "user.first", value, 300, XATTR_CREATE) == 0);
    EXPECT("setxattr", 0, DATA(value, 300), TEXT("user.first"), TEXT("XATTR_CREATE"));
    CHECK(lsetxattr("file", "user.second", value, 5, 0) == 0);
    EXPECT("lsetxattr", 0, DATA(value, 5), TEXT("user.second"));
    CHECK(fsetxattr(fd, "user.third", value + 300, 600, 0) == 0);
    EXPECT("fsetxattr", 0, DATA(value + 300, 600));
    CHECK(getxattr("file", "user.first", got, sizeof got) == 300);
    CHECK(memcmp(got, value, 300) == 0);
    EXPECT("getxattr", 300, DATA(value, 300));
    CHECK(lgetxattr("file", "user.second", got, sizeof got) == 5);
    EXPECT("lgetxattr", 5, DATA(value, 5));
    CHECK(fgetxattr(fd, "user.third", got, sizeof got) == 600);
    EXPECT("fgetxattr", 600, DATA(value + 300, 600));
    CHECK(fgetxattr(fd, "user.third", NULL, 0) == 600);
    EXPECT("fgetxattr", 600);
    CHECK(fgetxattr(fd, "user.third", got, 10) == -1 && errno == ERANGE);
    EXPECT_ERRNO("fgetxattr", ERANGE);
    ssize_t n = listxattr("file", list, sizeof list);
    CHECK(n >= 33);
    EXPECT("listxattr", n, DATA(list, (size_t)n));
    CHECK(llistxattr("file", list, sizeof list) == n);
    EXPECT("llistxattr", n, DATA(list, (size_t)n));
    CHECK(flistxattr(fd, list, sizeof list) == n);
    EXPECT("flistxattr", n, DATA(list, (size_t)n));
    CHECK(removexattr("file", "user.first") == 0);
    EXPECT("removexattr", 0, TEXT("user.first"));
    CHECK(lremovexattr("file", "user.second") == 0 && fremovexattr(fd, "user.third") == 0);
    EXPECT("lremovexattr", 0);
    EXPECT("fremovexattr", 0);
    CHECK(getxattr("file", "user.first", got, sizeof got) == -1 && errno == ENODATA);
    EXPECT_ERRNO("getxattr", ENODATA);
    return 0;
}
