# A client asks one question after the other of a server that takes 2 ms for each.
# first: network_waits
# never: syncs computes slow_pipe sleeps
# needs: python3

prepare() {
    cat > server.py <<END
import os, socket, time
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen()
print(server.getsockname()[1], file=open("port", "w"), flush=True)
peer, _ = server.accept()
while peer.recv(100):
    time.sleep(0.002)
    peer.sendall(b"an answer")
END
    /usr/bin/python3 server.py > server.log 2>&1 < /dev/null &
    while [ ! -s port ]; do sleep 0.05; done
}

run() {
    /usr/bin/python3 -c '
import socket
peer = socket.create_connection(("127.0.0.1", int(open("port").read())))
for n in range(300):
    peer.sendall(b"a question")
    peer.recv(100)
'
}

"$1"
