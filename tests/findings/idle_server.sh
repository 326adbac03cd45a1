# A server to which a client comes each 20 ms.
# first: event_waits network_waits
# may: sleeps
# never: syncs computes reading polling
# needs: python3

prepare() {
    :
}

run() {
    /usr/bin/python3 -c '
import os, selectors, socket, time
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen()
port = server.getsockname()[1]
if os.fork() == 0:
    for n in range(50):
        time.sleep(0.02)
        socket.create_connection(("127.0.0.1", port)).recv(10)
    os._exit(0)
selector = selectors.DefaultSelector()
selector.register(server, selectors.EVENT_READ)
for n in range(50):
    selector.select()
    peer, _ = server.accept()
    peer.sendall(b"hello")
    peer.close()
'
}

"$1"
