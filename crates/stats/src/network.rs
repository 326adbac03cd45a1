//! Connections: who talked with whom, how much, and how long replies took; sockets of one machine and
//! pipes apart.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use model::{Moment, OpenId, file_use};
use syscalls::Act;
use trace::event::{Call, EventKind};

use crate::histogram::Sparse;
use crate::pass::{Visit, Watch};
use crate::sheet::{Cell, Fact, Sheet, Table};
use crate::view::ViewRow;

/// The view.
pub static VIEW: ViewRow = ViewRow {
    name: "network",
    about: "Connections: peers, bytes, how long replies took, by listening address; pipes apart",
    look: |look| Ok(look.watch(Network::default(), |fold, _| fold.finish().sheet())),
};

/// Limit for the connections and pipes that are told apart; later ones count as one.
const LINES_MAX: usize = 20_000;
/// Limit for the bytes of an address.
const ADDRESS_MAX: usize = 256;

/// Who asked for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Role {
    /// Nobody knows.
    #[default]
    Unknown,
    /// A peer did: the program accepted it.
    Accepted,
    /// The program did.
    Connected,
}

/// How much went over a connection, and how long replies took.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Bytes received.
    pub in_bytes: u64,
    /// Bytes sent.
    pub out_bytes: u64,
    /// Calls that moved data or tried to.
    pub calls: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Time in those calls.
    pub time_ns: u64,
    /// From the last part of a request to the first part of its reply.
    pub replies: Sparse,
}

impl Traffic {
    fn add(&mut self, other: &Traffic) {
        self.in_bytes = self.in_bytes.saturating_add(other.in_bytes);
        self.out_bytes = self.out_bytes.saturating_add(other.out_bytes);
        self.calls += other.calls;
        self.errors += other.errors;
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
        self.replies.merge(&other.replies);
    }
}

/// A connection, or a pipe.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// What the socket is, or the name of the pipe.
    pub name: Vec<u8>,
    /// Address of this end, if it is known.
    pub local: String,
    /// Address of the other end, if it is known.
    pub peer: String,
    /// Who asked for it.
    pub role: Role,
    /// Process that used it first.
    pub pid: Option<u32>,
    /// First and last time that it was used.
    pub life: (u64, u64),
    /// What went over it.
    pub traffic: Traffic,
    /// The last data: whether it was sent, and when the call ended.
    last: Option<(bool, u64)>,
}

/// The fold.
#[derive(Default)]
pub struct Network {
    sockets: BTreeMap<OpenId, Line>,
    pipes: BTreeMap<Vec<u8>, Line>,
    left_out: u64,
}

fn bounded<K: Ord, V: Default>(lines: &mut BTreeMap<K, V>, key: K, others: K) -> (&mut V, bool) {
    let is_other = lines.len() >= LINES_MAX && !lines.contains_key(&key);
    (lines.entry(if is_other { others } else { key }).or_default(), is_other)
}

fn cut(text: &str) -> String {
    let end = (0..=ADDRESS_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text[..end.unwrap_or(0)].to_string()
}

impl Line {
    /// Counts a call. `sent`: data went out.
    fn call(&mut self, call: &Call, moment: &Moment<'_>, sent: bool) {
        let ns = moment.duration_ns().unwrap_or(0);
        let end_ns = moment.exit_ns.unwrap_or(moment.enter_ns);
        self.used(moment);
        let of = &mut self.traffic;
        of.calls += 1;
        of.errors += u64::from(call.error().is_some());
        of.time_ns = of.time_ns.saturating_add(ns);
        let Some(bytes) = file_use::of(call.nr).moved(call).filter(|bytes| *bytes > 0) else {
            return;
        };
        let sum = if sent { &mut of.out_bytes } else { &mut of.in_bytes };
        *sum = sum.saturating_add(bytes);
        if self.role == Role::Unknown && self.last.is_none() {
            self.role = if sent { Role::Connected } else { Role::Accepted };
        }
        let is_reply = sent == (self.role == Role::Accepted);
        if let Some((before, at_ns)) = self.last
            && is_reply
            && before != sent
        {
            of.replies.add(end_ns.saturating_sub(at_ns));
        }
        self.last = Some((sent, end_ns));
    }

    fn used(&mut self, moment: &Moment<'_>) {
        let end_ns = moment.exit_ns.unwrap_or(moment.enter_ns);
        if self.pid.is_none() {
            (self.pid, self.life.0) = (moment.pid, moment.enter_ns);
        }
        self.life.1 = self.life.1.max(end_ns);
    }

    fn is_internet(&self) -> bool {
        [&self.local, &self.peer].iter().any(|text| text.parse::<SocketAddr>().is_ok())
    }
}

impl Network {
    /// Counts a call on a descriptor.
    fn on(&mut self, call: &Call, moment: &Moment<'_>, fd: i32, sent: Option<bool>) {
        let Some(table) = moment.world.descriptors(moment.event.thread) else { return };
        let Some(entry) = table.get(fd) else { return };
        let of = entry.description;
        if of.path.starts_with(b"pipe:") {
            let (line, other) = bounded(&mut self.pipes, of.path.clone(), Vec::new());
            self.left_out += u64::from(other);
            line.name.clone_from(&of.path);
            if let Some(sent) = sent {
                line.call(call, moment, sent);
            }
            return;
        }
        if !of.path.starts_with(b"socket:") {
            return;
        }
        let (line, other) = bounded(&mut self.sockets, of.id(), OpenId::default());
        self.left_out += u64::from(other);
        if line.name.is_empty() {
            line.name.clone_from(&of.path);
        }
        let addresses = of.addresses.borrow();
        for (known, text) in
            [(&mut line.local, &addresses.local), (&mut line.peer, &addresses.peer)]
        {
            if let Some(text) = text.as_ref().filter(|text| known != *text) {
                *known = cut(text);
            }
        }
        match sent {
            Some(sent) => line.call(call, moment, sent),
            None => line.used(moment),
        }
    }

    fn accepted(&mut self, moment: &Moment<'_>) {
        for (_, given) in moment.step.gives() {
            let of = &given.description;
            let Some(peer) = of.addresses.borrow().peer.clone() else { continue };
            let (line, other) = bounded(&mut self.sockets, of.id(), OpenId::default());
            self.left_out += u64::from(other);
            line.role = Role::Accepted;
            line.name.clone_from(&of.path);
            line.peer = cut(&peer);
            line.local = of.addresses.borrow().local.as_deref().map(cut).unwrap_or_default();
        }
    }

    /// Returns the result.
    pub fn finish(self) -> Connections {
        let talked = |line: &Line| line.traffic.calls > 0 || line.role != Role::Unknown;
        let all = self.sockets.into_values().filter(talked);
        let (internet, local) = all.partition(Line::is_internet);
        let pipes = self.pipes.into_values().filter(talked).collect();
        Connections { internet, local, pipes, left_out: self.left_out }
    }
}

impl Watch for Network {
    fn add(&mut self, visit: &mut Visit<'_>) {
        let moment = visit.moment;
        let EventKind::Call(call) = &moment.event.kind else { return };
        if !visit.wanted {
            return;
        }
        let used = file_use::of(call.nr);
        let ends = [(used.from, false), (used.to, true)];
        for (arg, sent) in ends {
            if let Some(fd) = file_use::FileUse::descriptor(call, arg) {
                self.on(call, moment, fd, Some(sent));
            }
        }
        let Some(row) = syscalls::by_number(call.nr.into()) else { return };
        match row.act_of(&call.args) {
            Act::Connect if call.success().is_some() => {
                let fd = file_use::FileUse::descriptor(call, used.fd).unwrap_or(-1);
                self.on(call, moment, fd, None);
            }
            _ => self.accepted(moment),
        }
    }
}

/// All connections.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    /// Those with an address of the internet, in order of their beginning.
    pub internet: Vec<Line>,
    /// Other sockets: of this machine, of the kernel, and those whose addresses are not known.
    pub local: Vec<Line>,
    /// Pipes.
    pub pipes: Vec<Line>,
    /// Calls on connections beyond the limit.
    pub left_out: u64,
}

const COLUMNS: [(&str, &str); 15] = [
    ("local", "address"),
    ("peer", "peer"),
    ("role", "role"),
    ("in_bytes", "in"),
    ("out_bytes", "out"),
    ("replies", "replies"),
    ("p50_ns", "p50"),
    ("p99_ns", "p99"),
    ("max_ns", "max"),
    ("calls", "calls"),
    ("errors", "errors"),
    ("time_ns", "time"),
    ("start_ns", "from"),
    ("pid", "pid"),
    ("kind", "socket"),
];

/// Columns of connections that a terminal of 80 characters need not show.
const FURTHER: [&str; 8] =
    ["p99_ns", "max_ns", "calls", "errors", "time_ns", "start_ns", "pid", "kind"];
/// The same of sockets of the machine: most have no address.
const FURTHER_LOCAL: [&str; 8] =
    ["p50_ns", "p99_ns", "max_ns", "calls", "errors", "time_ns", "start_ns", "pid"];
/// The same of pipes.
const FURTHER_PIPE: [&str; 2] = ["errors", "start_ns"];
const SUM_COLUMNS: [(&str, &str); 8] = [
    ("address", "address"),
    ("connections", "connections"),
    ("in_bytes", "in"),
    ("out_bytes", "out"),
    ("replies", "replies"),
    ("p50_ns", "p50"),
    ("p99_ns", "p99"),
    ("max_ns", "max"),
];

fn name(text: &str) -> Cell {
    if text.is_empty() { Cell::Nothing } else { Cell::Name(text.into()) }
}

fn latency(of: &Traffic) -> [Cell; 4] {
    let at = |share| of.replies.ns(|replies| replies.quantile(share));
    [Cell::Count(of.replies.count), at(0.5), at(0.99), at(1.0)]
}

/// Returns connections as rows, those with most bytes first.
fn table(key: &'static str, title: &'static str, further: &[&str], lines: &[Line]) -> Table {
    let mut table = Table::new(key, title, &COLUMNS).further(further);
    let mut lines: Vec<&Line> = lines.iter().collect();
    lines.sort_by_key(|line| {
        let of = &line.traffic;
        (u64::MAX - of.in_bytes.saturating_add(of.out_bytes), line.life.0)
    });
    for line in lines {
        let of = &line.traffic;
        let role = match line.role {
            Role::Unknown => "",
            Role::Accepted => "serves",
            Role::Connected => "asks",
        };
        let mut cells = vec![name(&line.local), name(&line.peer), Cell::word(role)];
        cells.extend([Cell::Bytes(of.in_bytes), Cell::Bytes(of.out_bytes)]);
        cells.extend(latency(of));
        cells.extend([Cell::Count(of.calls), Cell::Count(of.errors), Cell::Ns(of.time_ns)]);
        cells.extend([
            Cell::At(line.life.0),
            line.pid.map_or(Cell::Nothing, |pid| Cell::Id(pid.into())),
            Cell::Name(line.name.clone()),
        ]);
        table.row(cells);
    }
    table
}

/// Returns sums of connections by an address of theirs, those with most bytes first.
fn sums<'a>(
    (key, title): (&'static str, &'static str),
    lines: impl Iterator<Item = (String, &'a Line)>,
) -> Table {
    let mut by_address: BTreeMap<String, (u64, Traffic)> = BTreeMap::new();
    for (address, line) in lines {
        let (count, sum) = by_address.entry(address).or_default();
        *count += 1;
        sum.add(&line.traffic);
    }
    let mut rows: Vec<_> = by_address.into_iter().collect();
    rows.sort_by_key(|(_, (_, sum))| u64::MAX - sum.in_bytes.saturating_add(sum.out_bytes));
    let mut table = Table::new(key, title, &SUM_COLUMNS).further(&["p99_ns", "max_ns"]);
    for (address, (count, sum)) in rows {
        let mut cells = vec![name(&address), Cell::Count(count)];
        cells.extend([Cell::Bytes(sum.in_bytes), Cell::Bytes(sum.out_bytes)]);
        cells.extend(latency(&sum));
        table.row(cells);
    }
    table
}

impl Connections {
    /// Returns the result as tables.
    pub fn sheet(&self) -> Sheet {
        let mut all = Traffic::default();
        self.internet.iter().for_each(|line| all.add(&line.traffic));
        let fact = |key, title, value| Fact { key, title, value };
        let [replies, p50, p99, max] = latency(&all);
        let facts = vec![
            fact("connection_count", "connections", Cell::Count(self.internet.len() as u64)),
            fact("in_bytes", "received", Cell::Bytes(all.in_bytes)),
            fact("out_bytes", "sent", Cell::Bytes(all.out_bytes)),
            fact("replies", "replies", replies),
            fact("p50_ns", "half of them within", p50),
            fact("p99_ns", "99% within", p99),
            fact("max_ns", "the longest", max),
            fact(
                "local_socket_count",
                "sockets without an internet address",
                Cell::Count(self.local.len() as u64),
            ),
            fact("pipe_count", "pipes", Cell::Count(self.pipes.len() as u64)),
        ];
        let listening = self.internet.iter().chain(&self.local);
        let listening =
            listening.filter(|line| line.role == Role::Accepted && !line.local.is_empty());
        let host = |line: &Line| match line.peer.parse::<SocketAddr>() {
            Ok(peer) if line.role == Role::Accepted => peer.ip().to_string(),
            _ => line.peer.clone(),
        };
        let peers = self.internet.iter().filter(|line| !line.peer.is_empty());
        let mut tables = vec![
            table("connections", "Connections", &FURTHER, &self.internet),
            sums(
                ("listening", "By listening address"),
                listening.map(|line| (line.local.clone(), line)),
            ),
            sums(("peers", "By peer"), peers.map(|line| (host(line), line))),
            table("local_sockets", "Sockets of this machine", &FURTHER_LOCAL, &self.local),
        ];
        let mut pipes = table("pipes", "Pipes", &[], &self.pipes);
        // A pipe has no addresses, asks and answers nothing.
        let kept =
            ["in_bytes", "out_bytes", "calls", "errors", "time_ns", "start_ns", "pid", "kind"];
        let is_kept: Vec<bool> =
            pipes.columns.iter().map(|column| kept.contains(&column.key)).collect();
        let mut at = 0..;
        pipes.columns.retain(|_| at.next().is_some_and(|at: usize| is_kept[at]));
        for row in &mut pipes.rows {
            let mut at = 0..;
            row.retain(|_| at.next().is_some_and(|at: usize| is_kept[at]));
        }
        pipes = pipes.further(&FURTHER_PIPE);
        for column in &mut pipes.columns {
            column.title = match column.key {
                "kind" => "pipe",
                "in_bytes" => "read",
                "out_bytes" => "written",
                _ => column.title,
            };
        }
        tables.push(pipes);
        let mut notes = vec![
            "A reply takes from the end of the call that moved the last part of a request to the end of \
             the one that moved the first part of the reply."
                .to_string(),
        ];
        if self.left_out > 0 {
            notes.push(format!(
                "{} calls are of connections that could not be distinguished.",
                self.left_out
            ));
        }
        Sheet { facts, tables, notes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Made, call, watch};

    /// An address of the internet, as the kernel has it.
    fn address(port: u16) -> Vec<u8> {
        let mut bytes = 2u16.to_ne_bytes().to_vec();
        bytes.extend(port.to_be_bytes());
        bytes.extend([127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    fn client() -> Vec<Made> {
        vec![
            call("socket", &[2, 1, 0], 3),
            call("connect", &[3, 0x5000, 16], 0).with(1, &address(80)),
            call("sendto", &[3, 0, 10, 0, 0, 0], 10),
            call("sendto", &[3, 0, 10, 0, 0, 0], 10),
            call("recvfrom", &[3, 0, 90, 0, 0, 0], 50).lasts(4000),
            call("recvfrom", &[3, 0, 90, 0, 0, 0], 40),
            call("recvfrom", &[3, 0, 90, 0, 0, 0], -11),
            call("write", &[1, 0, 7], 7),
            call("socket", &[1, 1, 0], 4),
            call("write", &[4, 0, 9], 9),
        ]
    }

    #[test]
    fn replies_take_from_the_end_of_the_request() {
        let found = watch(Network::default(), &client()).0.finish();
        let line = &found.internet[0];
        assert_eq!((&line.peer[..], line.role), ("127.0.0.1:80", Role::Connected));
        assert_eq!((line.traffic.out_bytes, line.traffic.in_bytes), (20, 90));
        assert_eq!((line.traffic.calls, line.traffic.errors), (5, 1));
        // One reply, begun 1000 ns after the request.
        assert_eq!((line.traffic.replies.count, line.traffic.replies.max), (1, 5000));
        assert_eq!((found.internet.len(), found.local.len(), found.pipes.len()), (1, 1, 1));
        assert_eq!(found.pipes[0].traffic.out_bytes, 7);
        let sheet = found.sheet();
        let keys: Vec<_> = sheet.tables.iter().map(|table| (table.key, table.rows.len())).collect();
        let expected = [
            ("connections", 1),
            ("listening", 0),
            ("peers", 1),
            ("local_sockets", 1),
            ("pipes", 1),
        ];
        assert_eq!(keys, expected);
        assert!(
            sheet
                .tables
                .iter()
                .flat_map(|t| t.rows.iter().map(|r| r.len() == t.columns.len()))
                .all(|same| same)
        );
    }

    #[test]
    fn connections_beyond_the_limit_count_as_one() {
        let mut lines: BTreeMap<u32, u32> = (1..=LINES_MAX as u32).map(|n| (n, 0)).collect();
        assert!(!bounded(&mut lines, 5, 0).1 && bounded(&mut lines, u32::MAX, 0).1);
        assert_eq!((cut(&"é".repeat(200)).len(), cut("a")), (ADDRESS_MAX, "a".to_string()));
    }
}
