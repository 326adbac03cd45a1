//! Control data of socket messages.

use syscalls::abi::files::{SCM_CREDENTIALS, SCM_RIGHTS, SOL_SOCKET};

use super::value::Value;
use super::{Bytes, Surroundings};

/// Limit for the control data that is decoded; the kernel's default limit is far below.
pub const CONTROL_BYTES_MAX: usize = 64 << 10;
/// Number of descriptors that one message can carry (`SCM_MAX_FD`).
const DESCRIPTORS_MAX: usize = 253;
/// Bytes of `struct cmsghdr`.
const HEADER_BYTES: usize = 16;

/// One control message.
struct Control<'a> {
    len: u64,
    level: i32,
    kind: i32,
    data: &'a [u8],
}

fn controls(bytes: &[u8]) -> impl Iterator<Item = Control<'_>> {
    let mut at = 0usize;
    std::iter::from_fn(move || {
        let header = bytes.get(at..)?.get(..HEADER_BYTES)?;
        let len = u64::from_ne_bytes(header[..8].try_into().expect("8 bytes"));
        let level = i32::from_ne_bytes(header[8..12].try_into().expect("4 bytes"));
        let kind = i32::from_ne_bytes(header[12..].try_into().expect("4 bytes"));
        let size = usize::try_from(len).ok().filter(|size| *size >= HEADER_BYTES)?;
        let end = at.saturating_add(size).min(bytes.len());
        let data = &bytes[at + HEADER_BYTES..end];
        at = at.saturating_add(size).checked_next_multiple_of(8).unwrap_or(usize::MAX);
        Some(Control { len, level, kind, data })
    })
}

fn words(bytes: &[u8]) -> impl Iterator<Item = i32> {
    bytes.chunks_exact(4).map(|w| i32::from_ne_bytes(w.try_into().expect("chunks of 4")))
}

/// Returns the descriptors carried by a message.
pub fn passed_descriptors(bytes: &[u8]) -> Vec<i32> {
    controls(bytes)
        .filter(|c| c.level == SOL_SOCKET && c.kind == SCM_RIGHTS)
        .flat_map(|c| words(c.data))
        .take(DESCRIPTORS_MAX)
        .collect()
}

/// Decodes control messages, one struct each.
pub fn decode(bytes: &[u8], at: u64, out: bool, view: &Surroundings<'_>) -> Value {
    let items = controls(bytes).map(|control| {
        let level = match control.level {
            SOL_SOCKET => Value::Named { value: 1, name: "SOL_SOCKET" },
            0 => Value::Named { value: 0, name: "SOL_IP" },
            41 => Value::Named { value: 41, name: "SOL_IPV6" },
            other => Value::Int(other.into()),
        };
        let (kind, data) = match (control.level, control.kind) {
            (SOL_SOCKET, SCM_RIGHTS) => {
                let fds = words(control.data).map(|fd| {
                    let path = if out { view.new_fd(fd) } else { view.fd(fd) };
                    Value::Fd { fd, path, dir: false }
                });
                let name = Value::Named { value: 1, name: "SCM_RIGHTS" };
                (name, Value::list(fds.collect()))
            }
            (SOL_SOCKET, SCM_CREDENTIALS) => {
                let names = ["pid", "uid", "gid"];
                let ids = words(control.data).map(|id| Value::Int(id.into()));
                let name = Value::Named { value: 2, name: "SCM_CREDENTIALS" };
                (name, Value::fields(names.into_iter().zip(ids).collect()))
            }
            (_, kind) => {
                let data = Bytes {
                    at: 0,
                    head: control.data.to_vec(),
                    len: control.data.len() as u64,
                    hash: None,
                };
                (Value::Int(kind.into()), Value::Bytes(data))
            }
        };
        Value::fields(vec![
            ("cmsg_len", Value::Uint(control.len)),
            ("cmsg_level", level),
            ("cmsg_type", kind),
            ("cmsg_data", data),
        ])
    });
    Value::Array { items: items.collect(), more: 0, at }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(len: u64, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = len.to_ne_bytes().to_vec();
        bytes.extend(SOL_SOCKET.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn finds_descriptors_after_other_messages() {
        let mut bytes = control(28, SCM_CREDENTIALS, &[0; 12]);
        let fds: Vec<u8> = [5i32, 6].iter().flat_map(|fd| fd.to_ne_bytes()).collect();
        bytes.extend(control(24, SCM_RIGHTS, &fds));
        assert_eq!(passed_descriptors(&bytes), [5, 6]);
    }

    #[test]
    fn lengths_that_lie_end_the_list() {
        for len in [0, 15, u64::MAX, u64::MAX - 7, 1 << 40] {
            let bytes = control(len, SCM_RIGHTS, &[1, 0, 0, 0]);
            assert!(passed_descriptors(&bytes).len() <= 2, "{len}");
        }
    }
}
