//! Which ports the kernel gave to sockets that had asked for any: clients were told of these.

use std::collections::HashMap;

use model::contents::is_out;
use model::{Contents, Moment, OpenTable};
use syscalls::abi::files::{AF_INET, AF_INET6};
use syscalls::{Act, Beside, by_number};
use trace::event::{Call, EventKind};

/// Maximum number of sockets that are followed.
const SOCKETS_MAX: usize = 1 << 12;
/// Bytes of an address up to the end of its port.
const HEAD: usize = 4;

/// What was found so far.
#[derive(Default)]
pub(crate) struct Ports {
    /// Numbers of the binds of sockets whose port is not known, by the socket: several descriptors of
    /// several processes may lead to it.
    open: OpenTable<u64>,
    /// Ports by the numbers of binds.
    pub known: HashMap<u64, u16>,
}

impl Ports {
    /// Takes each event, in order.
    pub fn event(&mut self, moment: &Moment<'_>, contents: &mut dyn Contents) {
        if !self.open.is_empty() {
            moment.world.closed_files(&mut |socket| _ = self.open.remove(&socket));
        }
        let (EventKind::Call(call), Some(seq)) = (&moment.event.kind, moment.seq) else { return };
        let Some(row) = by_number(call.nr.into()) else { return };
        let binds = row.beside_of(&call.args) == Beside::Binds;
        if !binds && row.act_of(&call.args) != Act::TellAddress || call.success().is_none() {
            return;
        }
        let table = moment.world.descriptors(moment.event.thread);
        let entry = table.as_ref().and_then(|table| table.get(call.args[0] as i32));
        let Some(socket) = entry.map(|entry| entry.description.id()) else { return };
        if binds {
            if port(call, false, contents) == Some(0) && self.open.len() < SOCKETS_MAX {
                self.open.insert(socket, seq);
            }
        } else if let Some(bind) = self.open.get(&socket)
            && let Some(port) = port(call, true, contents)
            && port != 0
            && self.known.len() < SOCKETS_MAX
        {
            self.known.insert(*bind, port);
            self.open.remove(&socket);
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
    use model::{InlineOnly, Walk};
    use syscalls::record::{StartHow, data_flag};
    use trace::Sequenced;
    use trace::event::{Content, Data, Event, Outcome};

    use super::*;

    /// A call about a descriptor, with an address of IPv4 and this port.
    fn call(name: &str, fd: u64, port: u16) -> EventKind {
        let bytes = [2, 0, (port >> 8) as u8, port as u8, 127, 0, 0, 1];
        let content = Content::Inline(bytes.into());
        let flags = if name == "bind" { 0 } else { data_flag::OUT };
        let data = Data { arg: 1, flags, true_len: 8, content, ..Data::default() };
        EventKind::Call(Call {
            nr: syscalls::by_name(name).unwrap().nr,
            args: [fd, 0x1000, 8, 0, 0, 0],
            outcome: Outcome::Returned { exit_tsc: 0, ret: 0 },
            data: vec![data],
            ..Call::default()
        })
    }

    /// One that gives a descriptor.
    fn gives(name: &str, args: [u64; 6], ret: i64) -> EventKind {
        let nr = syscalls::by_name(name).unwrap().nr;
        let outcome = Outcome::Returned { exit_tsc: 0, ret };
        EventKind::Call(Call { nr, args, outcome, ..Call::default() })
    }

    fn begin(process: u32, parent: u32) -> EventKind {
        let how = if parent == 0 { StartHow::Launch } else { StartHow::Fork };
        EventKind::Start { how, process, parent, pid: 40 + process, tid: 40 + process }
    }

    #[test]
    fn a_port_is_that_of_the_socket_that_was_bound() {
        let (mut walk, mut ports) = (Walk::default(), Ports::default());
        let socket = |fd| gives("socket", [2, 1, 0, 0, 0, 0], fd);
        let all = [
            (1, begin(1, 0)),
            (1, socket(3)),
            (1, call("bind", 3, 0)),
            (1, socket(4)),
            (1, call("bind", 4, 80)),
            (1, call("getsockname", 4, 80)),
            // Another process has another socket at a number of the first one.
            (2, begin(2, 1)),
            (2, gives("close", [3, 0, 0, 0, 0, 0], 0)),
            (2, socket(3)),
            (2, call("getsockname", 3, 50_000)),
            // A child, and under another number.
            (3, begin(3, 1)),
            (3, gives("dup", [3, 0, 0, 0, 0, 0], 9)),
            (3, gives("close", [3, 0, 0, 0, 0, 0], 0)),
            (3, call("getsockname", 9, 40_000)),
            // What was closed is not asked about.
            (1, socket(5)),
            (1, call("bind", 5, 0)),
            (1, gives("close", [5, 0, 0, 0, 0, 0], 0)),
            (1, socket(5)),
            (1, call("getsockname", 5, 40_001)),
        ];
        for ((thread, kind), seq) in all.into_iter().zip(0..) {
            let event = Event { thread, kind, ..Event::default() };
            let next = Sequenced { seq: Some(seq), event };
            walk.event(&next, &|tsc| tsc, &mut InlineOnly, |moment, contents| {
                ports.event(moment, contents);
            });
        }
        assert_eq!(ports.known, HashMap::from([(2, 40_000)]));
        assert!(ports.open.is_empty());
    }
}
