//! Bytes and messages through sockets, while another thread sends some as well.

use super::*;

/// A header of a message with one buffer and room for control data, and the vector.
fn header(buffer: u64) -> [Vec<u8>; 2] {
    let header = [0, 0, 1, 1, 1, 64, 0].map(u64::to_le_bytes).concat();
    [header, [1, buffer].map(u64::to_le_bytes).concat()]
}

/// The open thread receives so many bytes at most, and got these.
fn receive(r: &mut Recording, bytes: &[u8]) {
    let [header, vector] = header(4096);
    let call = r.call("recvmsg", &[4, 1, 0], &[], bytes.len() as i64);
    let parts = [(part::WHOLE, &header[..]), (part::VECTOR, &vector), (part::CONTENT, bytes)];
    let piece = |(part, content): (u8, &[u8])| Data {
        arg: 1,
        part,
        flags: data_flag::OUT,
        true_len: content.len() as u64,
        content: Content::Inline(content.to_vec()),
        ..Data::default()
    };
    call.data = parts.map(piece).into();
}

/// Threads 1 and 2 of a process that has a pair of sockets, 3 and 4.
fn with_a_pair(kind: i32) -> Recording {
    let mut r = threads_with_a_pipe();
    for number in [3, 4] {
        r.by(1).numbers("close", &[number], 0);
    }
    socket_pair(&mut r, kind, [3, 4]);
    r
}

fn send(r: &mut Recording, bytes: &[u8], begin: u64, end: u64) {
    r.by(2).call("sendto", &[3, 1, bytes.len() as u64, 0], &[(1, bytes)], bytes.len() as i64);
    r.lasting(begin * MS, end * MS);
}

/// What was sent meanwhile is the next one's, and what was sent before belongs to this one.
#[test]
fn as_many_bytes_of_a_stream_are_received_as_were() {
    let mut r = with_a_pair(libc::SOCK_STREAM);
    send(&mut r, b"one", 10, 11);
    send(&mut r, b"more", 20, 60);
    r.by(1);
    receive(&mut r, b"one");
    r.lasting(30 * MS, 50 * MS);
    receive(&mut r, b"more");
    r.lasting(70 * MS, 71 * MS);
    // Begins before the last of its bytes are sent.
    receive(&mut r, b"twothree");
    r.lasting(80 * MS, 120 * MS);
    send(&mut r, b"two", 90, 91);
    send(&mut r, b"three", 100, 101);
    r.in_order();
    agrees(&r);
}

/// Which of two messages came first is chance: each is received as a whole, and nobody waits for more.
#[test]
fn messages_stay_as_they_are() {
    for by_header in [true, false] {
        let mut r = with_a_pair(libc::SOCK_SEQPACKET);
        send(&mut r, b"a", 10, 60);
        r.thread(3);
        r.by(3).call("sendto", &[3, 1, 5, 0], &[(1, b"other")], 5);
        r.lasting(20 * MS, 61 * MS);
        r.by(1);
        for (bytes, at) in [(&b"other"[..], 70), (b"a", 80)] {
            if by_header {
                receive(&mut r, bytes);
            } else {
                r.call("recvfrom", &[4, 1, 100, 0], &[(1, bytes)], bytes.len() as i64);
            }
            r.lasting(at * MS, (at + 1) * MS);
        }
        r.in_order();
        let outcome = replayed(&r);
        assert!(outcome.stopped.is_none(), "{:?}", outcome.stopped);
    }
}
