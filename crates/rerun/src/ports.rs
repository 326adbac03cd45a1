//! Which ports the kernel gave to sockets that had asked for any: clients were told of these.

use std::collections::HashMap;

use model::Contents;
use model::contents::is_out;
use syscalls::abi::errno;
use syscalls::abi::files::{AF_INET, AF_INET6};
use syscalls::{Act, Beside, by_number};
use trace::event::{Call, Outcome};

/// Maximum number of sockets that are followed.
const SOCKETS_MAX: usize = 1 << 12;
/// Bytes of an address up to the end of its port.
const HEAD: usize = 4;

/// What was found so far.
#[derive(Default)]
pub(crate) struct Ports {
    /// Numbers of the binds of sockets whose port is not known, by process and descriptor.
    open: HashMap<(u32, u32), u64>,
    /// Ports by the numbers of binds.
    pub known: HashMap<u64, u16>,
}

impl Ports {
    /// Takes each call, in order.
    pub fn call(&mut self, process: u32, seq: u64, call: &Call, contents: &mut dyn Contents) {
        let Some(row) = by_number(call.nr.into()) else { return };
        let binds = row.beside_of(&call.args) == Beside::Binds;
        let act = row.act_of(&call.args);
        if !binds && !matches!(act, Act::TellAddress | Act::Close) {
            return;
        }
        match call.outcome {
            Outcome::Returned { ret, .. } if !errno::is_error(ret) => {}
            _ => return,
        }
        let key = (process, call.args[0] as u32);
        if binds {
            let is_any = port(call, false, contents) == Some(0);
            if is_any && self.open.len() < SOCKETS_MAX {
                self.open.insert(key, seq);
            } else {
                self.open.remove(&key);
            }
            return;
        }
        // A child may ask for the port of a socket that its maker has bound.
        let of_maker = || self.open.keys().find(|(_, fd)| *fd == key.1).copied();
        let key = if self.open.contains_key(&key) { Some(key) } else { of_maker() };
        match (act, key) {
            (Act::TellAddress, Some(key)) => {
                if let (Some(bind), Some(port)) =
                    (self.open.remove(&key), port(call, true, contents))
                    && port != 0
                    && self.known.len() < SOCKETS_MAX
                {
                    self.known.insert(bind, port);
                }
            }
            (Act::Close, Some(key)) if key.0 == process => _ = self.open.remove(&key),
            _ => {}
        }
    }
}

/// The port in the address of a call, if it is one of IP.
fn port(call: &Call, out: bool, contents: &mut dyn Contents) -> Option<u16> {
    let data = call.data.iter().find(|data| data.arg == 1 && is_out(data) == out)?;
    let bytes = contents.read(&data.content, HEAD).ok()?;
    let [family, more, high, low] = *bytes.first_chunk::<HEAD>()?;
    let family = u16::from_le_bytes([family, more]);
    let is_ip = family == AF_INET || family == AF_INET6;
    is_ip.then(|| u16::from_be_bytes([high, low]))
}

#[cfg(test)]
mod tests {
    use model::InlineOnly;
    use syscalls::record::data_flag;
    use trace::event::{Content, Data};

    use super::*;

    /// A call about a descriptor, with an address of IPv4 and this port.
    fn call(name: &str, fd: u64, port: u16, flags: u8) -> Call {
        let bytes = [2, 0, (port >> 8) as u8, port as u8, 127, 0, 0, 1];
        let content = Content::Inline(bytes.into());
        let data = Data { arg: 1, flags, true_len: 8, content, ..Data::default() };
        Call {
            nr: syscalls::by_name(name).unwrap().nr,
            args: [fd, 0x1000, 8, 0, 0, 0],
            outcome: Outcome::Returned { exit_tsc: 0, ret: 0 },
            data: vec![data],
            ..Call::default()
        }
    }

    #[test]
    fn a_port_is_known_once_the_program_asks_for_it() {
        let mut ports = Ports::default();
        let mut add = |process, seq, call: Call| {
            ports.call(process, seq, &call, &mut InlineOnly);
        };
        add(1, 1, call("bind", 3, 0, 0));
        add(1, 2, call("bind", 4, 80, 0));
        add(1, 3, call("getsockname", 4, 80, data_flag::OUT));
        add(1, 4, call("getsockname", 3, 40_000, data_flag::OUT));
        add(1, 5, call("bind", 5, 0, 0));
        add(1, 6, call("close", 5, 0, 0));
        add(1, 7, call("getsockname", 5, 40_001, data_flag::OUT));
        add(1, 8, call("bind", 6, 0, 0));
        add(2, 9, call("getsockname", 6, 40_002, data_flag::OUT));
        assert_eq!(ports.known, HashMap::from([(1, 40_000), (8, 40_002)]));
    }
}
