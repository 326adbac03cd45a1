//! Decodes socket addresses by family.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use syscalls::abi::files::{AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX, AF_VSOCK};

use super::value::Value;

/// Size of `struct sockaddr_storage`.
pub const BYTES_MAX: usize = 128;

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn port(bytes: &[u8]) -> Option<u16> {
    half(bytes, 2).map(u16::from_be)
}

fn ipv4(bytes: &[u8]) -> Option<Ipv4Addr> {
    Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(4..8)?).ok()?))
}

fn ipv6(bytes: &[u8]) -> Option<Ipv6Addr> {
    Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(8..24)?).ok()?))
}

/// Returns the path of a unix address. Abstract names begin with a NUL and may contain more.
fn unix_path(bytes: &[u8]) -> Vec<u8> {
    let path = bytes.get(2..).unwrap_or_default();
    if path.first() == Some(&0) {
        let mut name = b"@".to_vec();
        name.extend_from_slice(&path[1..]);
        return name;
    }
    path.split(|&c| c == 0).next().unwrap_or_default().to_vec()
}

/// Decodes an address field by field. `None` if not even the family was captured.
pub fn decode(bytes: &[u8]) -> Option<Value> {
    let family = half(bytes, 0)?;
    let name = syscalls::flags::AF.name_of(u64::from(family));
    let mut fields = vec![(
        "sa_family",
        match name {
            Some(name) => Value::Named { value: i64::from(family), name },
            None => Value::Uint(u64::from(family)),
        },
    )];
    let mut cut = false;
    let mut field = |name, value: Option<Value>| match value {
        Some(value) => fields.push((name, value)),
        None => cut = true,
    };
    match family {
        AF_UNIX => {
            if bytes.len() > 2 {
                field("sun_path", Some(Value::text(unix_path(bytes))));
            }
        }
        AF_INET => {
            field("sin_port", port(bytes).map(Value::Port));
            field("sin_addr", ipv4(bytes).map(|ip| Value::Ip(IpAddr::V4(ip))));
        }
        AF_INET6 => {
            field("sin6_port", port(bytes).map(Value::Port));
            field("sin6_flowinfo", word(bytes, 4).map(|w| Value::Uint(u32::from_be(w).into())));
            field("sin6_addr", ipv6(bytes).map(|ip| Value::Ip(IpAddr::V6(ip))));
            field("sin6_scope_id", word(bytes, 24).map(|w| Value::Uint(w.into())));
        }
        AF_NETLINK => {
            field("nl_pid", word(bytes, 4).map(|w| Value::Uint(w.into())));
            field("nl_groups", word(bytes, 8).map(|w| Value::Hex(w.into())));
        }
        AF_PACKET => {
            field("sll_protocol", half(bytes, 2).map(|h| Value::Hex(u16::from_be(h).into())));
            field("sll_ifindex", word(bytes, 4).map(|w| Value::Int((w as i32).into())));
        }
        AF_VSOCK => {
            field("svm_port", word(bytes, 4).map(|w| Value::Uint(w.into())));
            field("svm_cid", word(bytes, 8).map(|w| Value::Uint(w.into())));
        }
        _ => {
            let data = bytes[2..].to_vec();
            if !data.is_empty() {
                field("sa_data", Some(Value::text(data)));
            }
        }
    }
    Some(Value::Struct { fields, cut })
}

/// Formats an address for a descriptor's label.
pub fn short(bytes: &[u8]) -> Option<String> {
    match half(bytes, 0)? {
        1 => {
            let path = unix_path(bytes);
            (!path.is_empty()).then(|| String::from_utf8_lossy(&path).into_owned())
        }
        2 => Some(format!("{}:{}", ipv4(bytes)?, port(bytes)?)),
        10 => Some(format!("[{}]:{}", ipv6(bytes)?, port(bytes)?)),
        _ => None,
    }
}
