"""A program that does a little of everything that storage engineers look at."""

import fcntl
import mmap
import os
import signal
import socket
import stat
import sys
import termios

PAGE = 4096

# Pages that are all different, twice, and once more one page that is always the same.
with open("pages", "wb", buffering=0) as pages:
    for turn in range(2):
        for page in range(50):
            os.pwrite(pages.fileno(), bytes([page, 255 - page]) * (PAGE // 2), page * PAGE)
    for page in range(50):
        os.pwrite(pages.fileno(), b"same" * (PAGE // 4), page * PAGE)
    os.fsync(pages.fileno())
    fcntl.lockf(pages, fcntl.LOCK_EX, 10, 20, os.SEEK_SET)
    fcntl.fcntl(pages, fcntl.F_SETFL, fcntl.fcntl(pages, fcntl.F_GETFL) | os.O_APPEND)

# Offsets that no call names, and a buffer of several stored pieces.
with open("sequential", "wb", buffering=0) as out:
    for size in (1, 10, 100, 1000, 10000, 100000, 1000000):
        out.write(bytes(n * size % 251 for n in range(1000)) * (size // 1000 or 1))
    os.lseek(out.fileno(), 77, os.SEEK_SET)
    out.write(b"after a seek")
    out.write(b"")
    os.fdatasync(out.fileno())

# Vectors, copies, and reads that come back short.
with open("vectors", "w+b", buffering=0) as both:
    os.writev(both.fileno(), [b"x" * 10, b"", b"y" * 70000, b"z"])
    os.pwritev(both.fileno(), [b"a" * 3, b"b" * 5], 1 << 33)
    os.lseek(both.fileno(), 0, os.SEEK_SET)
    os.readv(both.fileno(), [bytearray(5), bytearray(100)])
    os.preadv(both.fileno(), [bytearray(4), bytearray(4)], 1 << 33)
    both.read(1 << 20)
    both.truncate(12345)
    with open("copy", "wb", buffering=0) as copy:
        os.sendfile(copy.fileno(), both.fileno(), 7, 1000)
        os.copy_file_range(both.fileno(), copy.fileno(), 500, 100)

# Names: failing ones, one that is no UTF-8, one in another alphabet.
for name in (b"missing", b"no\xff\xfeutf8", "gr\u00fc\u00df".encode()):
    try:
        os.open(name, os.O_RDONLY)
    except FileNotFoundError:
        pass
    with open(name + b".new", "wb") as new:
        new.write(name)
    os.rename(name + b".new", name)
os.mkdir("folder")
os.symlink("folder", "link")
os.chmod("folder", 0o710)
os.utime("folder", ns=(1, 2_000_000_003))
assert stat.S_ISDIR(os.stat("link").st_mode)
sorted(os.listdir("."))
os.statvfs(".")

# Messages that carry a descriptor, and addresses.
left, right = socket.socketpair()
socket.send_fds(left, [b"with a descriptor"], [0])
for fd in socket.recv_fds(right, 100, 4)[1]:
    os.close(fd)
listener = socket.socket(socket.AF_INET)
listener.bind(("127.0.0.1", 0))
listener.listen()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes(8))
listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
listener.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
client.sendall(b"over the net" * 10)
server.recv(1000)


# Requests whose memory is a number, a struct, or anything.
for request in (termios.FIONREAD, termios.TCGETS, 0x80081234):
    try:
        fcntl.ioctl(listener, request, bytes(60))
    except OSError:
        pass

with mmap.mmap(-1, PAGE) as memory:
    memory[0] = 1

# Processes that end in all ways.
reading, writing = os.pipe()
for end in (lambda: os._exit(3), lambda: os.kill(os.getpid(), signal.SIGKILL)):
    child = os.fork()
    if child == 0:
        os.write(writing, b"from the child")
        end()
    os.waitpid(child, 0)
    os.read(reading, 100)
if os.spawnvp(os.P_WAIT, "true", ["true", "an argument"]) != 0:
    sys.exit("true failed")
signal.signal(signal.SIGUSR1, lambda *_: None)
os.kill(os.getpid(), signal.SIGUSR1)
print("done")
