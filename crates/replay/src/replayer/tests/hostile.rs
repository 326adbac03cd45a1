//! Recordings that no program makes: files that they try to reach must not change. All of these are
//! the test's own.

use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;

use trace::event::EventKind;

use super::*;

fn inline(bytes: &[u8]) -> Content {
    Content::Inline(bytes.to_vec())
}

/// The kernel truncates the count to 32 bits, and takes as many elements.
#[test]
fn elements_are_counted_with_the_bits_that_the_kernel_looks_at() {
    for (count, elements) in [((1 << 32) + 3, &[5u64][..]), ((1 << 40) + 1, &[5, 7])] {
        let mut r = threads_with_a_pipe();
        let before = [0x41; 200];
        r.by(1).call("write", &[4, 1, 200], &[(1, &before)], 200);
        r.call("read", &[3, 1, 200], &[(1, &before)], 200);
        let call = r.call("writev", &[4, 1, count], &[(1, b"hello")], 5);
        call.data.insert(0, vector(elements));
        r.call("read", &[3, 1, 5], &[(1, b"hello")], 5);
        agrees(&r);
    }
}

/// More elements than the kernel accepts are refused in the replay as well.
#[test]
fn too_many_elements_stay_too_many() {
    for count in [1025, 2000, u64::from(u32::MAX), 1 << 31, u64::MAX] {
        let mut r = threads_with_a_pipe();
        let call = r.by(1).call("writev", &[4, 1, count], &[(1, b"hello")], EINVAL);
        call.data.insert(0, vector(&[5]));
        agrees(&r);
    }
}

/// A path without stored bytes, in an overlapping call.
#[test]
fn a_path_that_is_not_there_is_not_looked_at() {
    for ret in [ENOENT, EEXIST, ENOTEMPTY] {
        let mut r = threads_with_a_pipe();
        r.by(2).call("read", &[3, 1, 1], &[(1, b"x")], 1);
        r.lasting(10 * MS, 90 * MS);
        for (name, args) in [
            ("openat", &[-100i64 as u64, 1, 0o102, 0o644][..]),
            ("rename", &[1, 1]),
            ("rmdir", &[1]),
            ("linkat", &[-100i64 as u64, 1, -100i64 as u64, 1, 0]),
            ("fchmodat", &[-100i64 as u64, 1, 0o2755]),
            ("access", &[1, 1]),
        ] {
            r.by(1).numbers(name, args, ret);
            r.lasting(20 * MS, 30 * MS);
        }
        r.by(1).call("write", &[4, 1, 1], &[(1, b"x")], 1);
        r.lasting(40 * MS, 95 * MS);
        let outcome = replayed(&r);
        assert!(outcome.stopped.is_none(), "{:?}", outcome.stopped);
    }
}

/// Pads a name so that the trace stores it in a buffer.
fn padded(name: &[u8]) -> Vec<u8> {
    [name, &[0; 100]].concat()
}

#[test]
fn dangerous_attributes_are_known_wherever_their_names_are_kept() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("file");
    fs::write(&file, "").expect("a file");
    let path = [file.as_os_str().as_bytes(), b"\0"].concat();
    for name in ["security.reenact", "trusted.reenact"] {
        let mut r = threads_with_a_pipe();
        let set = |r: &mut Recording, data: &[(u8, &[u8])]| {
            r.by(1).call("setxattr", &[1, 1, 1, 1, 0], data, 0);
        };
        set(&mut r, &[(0, &path), (1, &padded(name.as_bytes())), (2, b"v")]);
        // Of two pieces, the one with part WHOLE counts.
        set(&mut r, &[(0, &path), (1, b"user.x"), (1, name.as_bytes()), (2, b"v")]);
        let EventKind::Call(call) = &mut r.last().kind else { unreachable!("it is a call") };
        call.data[1].part = part::CONTENT;
        let outcome = replayed(&r);
        let withheld = outcome.withheld.get("attributes that need privileges not set");
        assert_eq!(withheld, Some(&2), "{name}: {:?}", outcome.withheld);
        let found = rustix::fs::getxattr(&file, name, &mut [0u8; 8][..]);
        assert_eq!(found, Err(rustix::io::Errno::NODATA), "{name}");
    }
}

#[test]
fn nothing_is_sent_to_a_name() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let place = dir.path().join("socket");
    let outside = UnixDatagram::bind(&place).expect("a socket");
    outside.set_nonblocking(true).expect("it does not wait");
    let family = (libc::AF_UNIX as u16).to_ne_bytes();
    let address = [&family[..], place.as_os_str().as_bytes(), b"\0"].concat();
    let len = address.len() as u64;
    let piece = |part, content: &[u8]| Data {
        arg: 1,
        part,
        true_len: content.len() as u64,
        content: inline(content),
        ..Data::default()
    };
    let header = |name: u64, name_len: u64| {
        let words = [name, name_len, 1, 1, 0, 0, 0, 0];
        words.map(u64::to_le_bytes).concat()
    };
    let mut r = threads_with_a_pipe();
    let pair = [5, 0, 0, 0, 6, 0, 0, 0];
    let datagrams = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as u64;
    r.by(1).call("socketpair", &[libc::AF_UNIX as u64, datagrams, 0, 1], &[(3, &pair)], 0);
    r.call("sendto", &[5, 1, 4, 0, 1, len], &[(1, b"harm"), (4, &address)], 4);
    for (name, ret) in [("sendmsg", 4), ("sendmmsg", 1)] {
        let args = if name == "sendmsg" { &[5, 1, 0][..] } else { &[5, 1, 1, 0] };
        // With and without a name according to the header.
        for header in [header(1, len), header(0, 0)] {
            let call = r.call(name, args, &[], ret);
            call.data = vec![
                piece(part::WHOLE, &header),
                piece(part::NAME, &address),
                piece(part::VECTOR, &[1u64, 4].map(u64::to_le_bytes).concat()),
                piece(part::CONTENT, b"harm"),
            ];
        }
    }
    // Within the pair everything still arrives.
    r.call("sendto", &[5, 1, 4, 0, 0, 0], &[(1, b"good")], 4);
    r.call("read", &[6, 1, 4], &[(1, b"good")], 4);
    agrees(&r);
    let came = outside.recv(&mut [0; 64]).expect_err("nothing came");
    assert_eq!(came.kind(), ErrorKind::WouldBlock);
}

/// Huge pages are the whole machine's.
#[test]
fn huge_pages_are_not_taken() {
    let mut r = threads_with_a_pipe();
    let huge = u64::from(libc::MFD_CLOEXEC | libc::MFD_HUGETLB | libc::MFD_HUGE_2MB);
    r.by(1).call("memfd_create", &[1, huge], &[(0, b"huge\0")], 5);
    r.write(5, b"no huge page takes a write");
    let outcome = replayed(&r);
    assert!(outcome.agrees(), "{:?}", outcome.mismatches);
    assert_eq!(outcome.withheld.values().sum::<u64>(), 1, "{:?}", outcome.withheld);
}
