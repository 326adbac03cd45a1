# The same client, which waits by poll.
# first: event_waits network_waits
# never: syncs computes sleeps polling
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
import select, socket
peer = socket.create_connection(("127.0.0.1", int(open("port").read())))
poll = select.poll()
poll.register(peer, select.POLLIN)
for n in range(300):
    peer.sendall(b"a question")
    poll.poll()
    peer.recv(100)
'
}

"$1"
