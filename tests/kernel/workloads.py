"""Workloads of which events of the kernel are counted."""

import ctypes
import os
import signal
import socket
import subprocess
import time

PR_SET_NAME = 15


def name_itself(name):
    """Gives this thread a name."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def files(folder):
    """Requests to a disk."""
    for number in range(10):
        path = os.path.join(folder, f"file{number}")
        with open(path, "wb") as out:
            out.write(os.urandom(1 << 20))
            out.flush()
            os.fsync(out.fileno())
        os.unlink(path)


def processes(_):
    """Processes that begin and end."""
    for _ in range(20):
        subprocess.run(["cat", "/etc/passwd"], stdout=subprocess.DEVNULL, check=True)


def faults(_):
    """Memory that is not there yet."""
    for _ in range(4):
        memory = bytearray(4 << 20)
        for at in range(0, len(memory), 4096):
            memory[at] = 1


def switches(_):
    """Two processes that wait for each other."""
    one, other = os.pipe(), os.pipe()
    if os.fork() == 0:
        for _ in range(1000):
            os.read(one[0], 1)
            os.write(other[1], b"x")
        os._exit(0)
    for _ in range(1000):
        os.write(one[1], b"x")
        os.read(other[0], 1)
    os.wait()


def timers(_):
    """Sleeps and signals."""
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
    for _ in range(50):
        time.sleep(0.002)
    signal.setitimer(signal.ITIMER_REAL, 0)


def packets(_):
    """Connections within the machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        for _ in range(20):
            with socket.create_connection(server.getsockname()) as client:
                served, _ = server.accept()
                client.sendall(bytes(10_000))
                served.recv(10_000)
                served.close()


WORKLOADS = [files, processes, faults, switches, timers, packets]
