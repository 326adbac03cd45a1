//! Turns the arguments in strace's text back into registers and memory.

use model::decode::shape::shape_of;
use syscalls::layout::{FieldKind, Layout, MSGHDR};
use syscalls::record::part;
use syscalls::shape::{Arg, ArgKind, Dir, Len, Of, Syscall};
use trace::event::{Call, Outcome};

use super::memory;
use super::node::Node;
use super::number;
use super::register::{SOMEWHERE, register};
use crate::spelling::{self, Argument, Shown, field};

/// Most bytes of memory for one argument.
const MEMORY_BYTES_MAX: usize = 1 << 26;

/// Memory that an argument points to.
pub struct Memory {
    /// The argument's number.
    pub arg: u8,
    /// `syscalls::record::part`.
    pub part: u8,
    /// Index of the element.
    pub index: u16,
    /// The contents after the call, not before.
    pub out: bool,
    /// Length in the program's memory.
    pub true_len: u64,
    /// The bytes known from the text.
    pub bytes: Vec<u8>,
}

/// The arguments of a call as a trace stores them.
#[derive(Default)]
pub struct Encoded {
    /// The arguments.
    pub args: [u64; 6],
    /// Number of arguments.
    pub nargs: u8,
    /// The memory that they point to.
    pub memory: Vec<Memory>,
    /// Number of arguments whose value or memory is not in the text.
    pub untold: u32,
}

/// Encodes the arguments of a call as a trace stores them.
pub fn encode(row: &'static Syscall, nodes: &[Node<'_>], ret: Option<i64>) -> Encoded {
    // Some arguments decide what the others mean and which are printed.
    let mut args = registers(row, row.args, &[0; 6], nodes);
    args = registers(row, row.args, &args, nodes);
    let call = Call { nr: row.nr, args, outcome: Outcome::Unfinished, ..Call::default() };
    let shape = shape_of(&call);
    args = registers(row, shape.args, &args, nodes);
    let places =
        Places { row, args: shape.args, order: spelling::order(row.name, &args, shape.args) };
    let nargs = shape.args.len().min(6);
    let mut encoder =
        Encoder { call: row.name, args, ret: ret.unwrap_or(0), memory: Vec::new(), untold: 0 };
    for (number, arg) in shape.args.iter().take(6).enumerate() {
        if let Some(node) = places.find(nodes, number) {
            encoder.argument(number as u8, arg, node);
        }
    }
    Encoded { args, nargs: nargs as u8, memory: encoder.memory, untold: encoder.untold }
}

/// Maps arguments to their nodes in the text.
struct Places {
    row: &'static Syscall,
    args: &'static [Arg],
    order: Vec<usize>,
}

impl Places {
    /// Finds the node of an argument by position, or by name where strace prints names.
    fn find<'n, 'a>(&self, nodes: &'n [Node<'a>], number: usize) -> Option<&'n Node<'a>> {
        let ours = self.args.get(number)?.name;
        let theirs = match spelling::argument(self.row.name, ours) {
            Some(Argument::Named(name)) => name,
            _ => ours,
        };
        let named = nodes.iter().find_map(|node| match node {
            Node::Named(name, value) if *name == theirs => Some(&**value),
            _ => None,
        });
        let place = self.order.iter().position(|shown| *shown == number);
        let placed = place.and_then(|place| nodes.get(place));
        named.or_else(|| placed.filter(|node| !matches!(node, Node::Named(..))))
    }
}

fn registers(
    row: &'static Syscall,
    args: &'static [Arg],
    known: &[u64; 6],
    nodes: &[Node<'_>],
) -> [u64; 6] {
    let places = Places { row, args, order: spelling::order(row.name, known, args) };
    let mut registers = [0; 6];
    for (number, arg) in args.iter().take(6).enumerate() {
        if let Some(node) = places.find(nodes, number) {
            registers[number] = register(arg.kind, node).unwrap_or(0);
        }
    }
    registers
}

struct Encoder {
    call: &'static str,
    args: [u64; 6],
    ret: i64,
    memory: Vec<Memory>,
    untold: u32,
}

impl Encoder {
    fn argument(&mut self, number: u8, arg: &Arg, node: &Node<'_>) {
        let (dir, of, len) = match arg.kind {
            ArgKind::Path | ArgKind::Str => return self.string(number, 0, node),
            ArgKind::StrArray => {
                match node {
                    Node::List { items, cut, .. } => {
                        self.untold += u32::from(*cut);
                        for (index, item) in items.iter().enumerate().take(u16::MAX.into()) {
                            self.string(number, index as u16, item);
                        }
                    }
                    _ => self.bare(node),
                }
                return;
            }
            ArgKind::Buf(dir, of, len) => (dir, of, len),
            kind => {
                self.untold += u32::from(register(kind, node).is_none());
                return;
            }
        };
        let found = spelling::argument(self.call, arg.name) == Some(Argument::Found);
        match (dir, node) {
            (Dir::InOut, Node::Struct { .. }) if found => {
                self.untold += 1;
                self.place(number, of, len, node, true);
            }
            (Dir::InOut, Node::Changed(before, after)) => {
                self.place(number, of, len, before, false);
                self.place(number, of, len, after, true);
            }
            (Dir::InOut, Node::List { items, .. }) if matches!(of, Of::I32 | Of::I64) => {
                let (before, after): (Vec<_>, Vec<_>) = items.iter().map(sides).unzip();
                self.numbers(number, of, &before, false);
                self.numbers(number, of, &after, true);
            }
            (Dir::In, Node::Changed(before, _)) => self.place(number, of, len, before, false),
            (Dir::Out | Dir::OutOnError, Node::Changed(_, after)) => {
                self.place(number, of, len, after, true);
            }
            (Dir::In | Dir::InOut, _) => self.place(number, of, len, node, false),
            (Dir::Out | Dir::OutOnError, _) => self.place(number, of, len, node, true),
        }
    }

    fn numbers(&mut self, number: u8, of: Of, nodes: &[&Node<'_>], out: bool) {
        let size = if matches!(of, Of::I32) { 4 } else { 8 };
        let mut bytes = Vec::new();
        for node in nodes {
            let Some(value) = register(ArgKind::Ulong, node) else {
                self.untold += 1;
                return;
            };
            bytes.extend_from_slice(&value.to_le_bytes()[..size]);
        }
        self.push(number, part::WHOLE, 0, out, bytes, None);
    }

    /// Counts an address without its memory as untold, unless it is null.
    fn bare(&mut self, node: &Node<'_>) {
        let null = matches!(node, Node::Word(word) if number::any(word) == Some(0));
        self.untold += u32::from(!null);
    }

    fn string(&mut self, number: u8, index: u16, node: &Node<'_>) {
        match node {
            Node::Text { bytes, cut } => {
                let more = bytes.len() as u64 + 1;
                self.push(number, part::WHOLE, index, false, bytes.clone(), cut.then_some(more));
            }
            _ => self.bare(node),
        }
    }

    /// `longer` is the length in the program, if the text has only part of it.
    fn push(
        &mut self,
        arg: u8,
        part: u8,
        index: u16,
        out: bool,
        bytes: Vec<u8>,
        longer: Option<u64>,
    ) {
        let held = bytes.len() as u64;
        self.untold += u32::from(longer.is_some_and(|len| len > held));
        let true_len = longer.unwrap_or(held).max(held);
        self.memory.push(Memory { arg, part, index, out, true_len, bytes });
    }

    fn place(&mut self, number: u8, of: Of, len: Len, node: &Node<'_>, out: bool) {
        match (of, node) {
            (_, Node::Word(_) | Node::Several(_)) => {
                // A buffer into which the kernel wrote nothing is shown as its address.
                if !out || self.ret > 0 {
                    self.bare(node);
                }
            }
            (Of::Bytes | Of::Text, Node::Text { bytes, cut }) => {
                let mut bytes = bytes.clone();
                // getcwd counts the NUL.
                if len == Len::RetPath && self.ret == bytes.len() as i64 + 1 {
                    bytes.push(0);
                }
                let longer = cut.then(|| self.length(len).max(bytes.len() as u64 + 1));
                self.push(number, part::WHOLE, 0, out, bytes, longer);
            }
            (Of::Iovec, Node::List { items, .. }) => self.vector(number, part::WHOLE, items, out),
            (Of::Msghdr, Node::Struct { fields, .. }) => self.message(number, fields, out),
            (Of::Holder(holder), Node::Struct { fields, .. }) => {
                self.holder(number, holder.layout, holder.of, fields, out);
            }
            _ => match encoded(of, node, self.length(len)) {
                Some(bytes) if bytes.len() <= MEMORY_BYTES_MAX => {
                    self.push(number, part::WHOLE, 0, out, bytes, None);
                }
                _ => self.untold += 1,
            },
        }
    }

    /// Length by the table's rule, where arguments or the result determine it; otherwise 0.
    fn length(&self, len: Len) -> u64 {
        let ret = self.ret.max(0) as u64;
        let arg = |number: u8| self.args.get(usize::from(number)).copied().unwrap_or(0);
        match len {
            Len::Fixed(bytes) | Len::FixedIfRet(bytes) => bytes.into(),
            Len::Arg(number) => arg(number),
            Len::ArgPlus(number, more) => arg(number).saturating_add(more.into()),
            Len::Ret | Len::RetPath => ret,
            Len::RetPlus(more) => ret.saturating_add(more.into()),
            Len::RetAtMost(number, unit) => ret.min(arg(number)).saturating_mul(unit.into()),
            Len::BitsArg(number) => arg(number).div_ceil(64).saturating_mul(8),
            _ => 0,
        }
    }

    fn vector(&mut self, number: u8, part: u8, items: &[Node<'_>], out: bool) {
        let mut head = Vec::new();
        let mut left = self.ret.max(0) as u64;
        for (index, item) in items.iter().enumerate().take(u16::MAX.into()) {
            let Node::Struct { fields, .. } = item else {
                self.untold += 1;
                return;
            };
            let len =
                memory::field(fields, field::IOV_LEN).and_then(|n| register(ArgKind::Ulong, n));
            let (Some(len), Some(base)) = (len, memory::field(fields, field::IOV_BASE)) else {
                self.untold += 1;
                return;
            };
            let address = register(ArgKind::Address, base).unwrap_or(SOMEWHERE);
            head.extend(address.to_le_bytes());
            head.extend(len.to_le_bytes());
            let held = if out { len.min(left) } else { len };
            left = left.saturating_sub(held);
            match base {
                Node::Text { bytes, cut } if !bytes.is_empty() => {
                    // Pieces of message contents are indexed by message; here there is only one.
                    let index = if part == part::WHOLE { index as u16 } else { 0 };
                    let longer = cut.then_some(held);
                    self.push(number, part::CONTENT, index, out, bytes.clone(), longer);
                }
                Node::Text { .. } => {}
                other if held > 0 => self.bare(other),
                _ => {}
            }
        }
        self.push(number, part, 0, false, head, None);
    }

    fn message(&mut self, number: u8, fields: &[(&str, Node<'_>)], out: bool) {
        let mut header = vec![0; MSGHDR.size as usize];
        for of in MSGHDR.fields {
            let kind = match of.kind {
                FieldKind::Flags(_, set) => ArgKind::Flags(set),
                _ => ArgKind::Address,
            };
            let node = memory::field(fields, of.name)
                .map(|node| if out { sides(node).1 } else { sides(node).0 });
            let value = node.and_then(|node| register(kind, node)).unwrap_or(0);
            let (at, size) = (of.offset as usize, memory::field_bytes(&of.kind).unwrap_or(0));
            header[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        }
        self.push(number, part::WHOLE, 0, out, header, None);
        if let Some(name @ Node::Struct { .. }) = memory::field(fields, field::MSG_NAME)
            && let Some(bytes) = encoded(Of::Sockaddr, name, 0)
        {
            self.push(number, part::NAME, 0, out, bytes, None);
        }
        match memory::field(fields, field::MSG_IOV) {
            Some(Node::List { items, .. }) => self.vector(number, part::VECTOR, items, out),
            _ => self.untold += 1,
        }
        self.untold += u32::from(memory::field(fields, field::MSG_CONTROL).is_some());
    }

    fn holder(
        &mut self,
        number: u8,
        layout: &'static Layout,
        of: Of,
        fields: &[(&str, Node<'_>)],
        out: bool,
    ) {
        let Some(bytes) = structure(layout, fields) else {
            self.untold += 1;
            return;
        };
        let inner = fields.iter().find(|(_, node)| !matches!(node, Node::Word(_)));
        if let Some((_, node)) = inner
            && let Some(held) = encoded(of, node, 0)
        {
            self.push(number, part::CONTENT, 0, out, held, None);
        }
        self.push(number, part::WHOLE, 0, out, bytes, None);
    }
}

/// Splits a node into the values before and after the call.
fn sides<'n, 'a>(node: &'n Node<'a>) -> (&'n Node<'a>, &'n Node<'a>) {
    match node {
        Node::Changed(before, after) => (before, after),
        one => (one, one),
    }
}

/// Encodes memory that holds no pointers; returns `None` if the text does not have all of it.
pub fn encoded(of: Of, node: &Node<'_>, length: u64) -> Option<Vec<u8>> {
    match (of, node) {
        (Of::Struct(layout), Node::Struct { fields, cut: false, .. }) => structure(layout, fields),
        (Of::Struct(layout), Node::List { items, cut: false, .. }) => {
            all(items, |item| encoded(Of::Struct(layout), item, 0))
        }
        // `utimensat` prints special times by name.
        (Of::Struct(layout), Node::Word(word)) => memory::named_time(layout, word),
        (Of::I32 | Of::U32 | Of::Fds, Node::List { items, cut: false, .. }) => {
            all(items, |item| Some(register(ArgKind::Ulong, item)?.to_le_bytes()[..4].to_vec()))
        }
        (Of::I64 | Of::U64, Node::List { items, cut: false, .. }) => {
            all(items, |item| Some(register(ArgKind::Ulong, item)?.to_le_bytes().to_vec()))
        }
        (Of::SigSet, _) => Some(memory::signal_set(node)?.to_le_bytes().to_vec()),
        (Of::Siginfo, Node::Struct { fields, cut: false, .. }) => memory::siginfo(fields),
        (Of::Bits | Of::FdSet, Node::List { items, cut: false, inverted: false }) => {
            memory::bits(items, length)
        }
        (Of::Sockaddr, Node::Struct { fields, plain, cut: false }) => {
            memory::sockaddr(fields, plain)
        }
        (Of::Dirents64, Node::List { items, cut: false, .. }) => all(items, memory::dirent),
        (Of::WaitStatus, Node::List { items, cut: false, .. }) => {
            Some(memory::wait_status(items.first()?)?.to_le_bytes().to_vec())
        }
        _ => None,
    }
}

fn all<'n, 'a>(
    items: &'n [Node<'a>],
    mut encode: impl FnMut(&'n Node<'a>) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for item in items {
        bytes.extend(encode(item)?);
        if bytes.len() > MEMORY_BYTES_MAX {
            return None;
        }
    }
    Some(bytes)
}

/// Encodes a struct by its layout. Fields missing from the text are 0.
fn structure(layout: &'static Layout, fields: &[(&str, Node<'_>)]) -> Option<Vec<u8>> {
    let mut bytes = vec![0; layout.size as usize];
    let form = spelling::form(layout.name);
    for (name, node) in fields {
        let piece = form.and_then(|form| form.fields.iter().find(|piece| piece.name == *name));
        let ours = piece.map_or(*name, |piece| piece.field);
        let field = layout.fields.iter().find(|field| field.name == ours)?;
        let node = match piece.map(|piece| piece.shown) {
            Some(Shown::Val) => match node {
                Node::Struct { fields, .. } => memory::field(fields, spelling::VAL)?,
                other => other,
            },
            Some(Shown::Twice) => match node {
                Node::Struct { fields, .. } => memory::field(fields, "u64")?,
                other => other,
            },
            _ => node,
        };
        put(&mut bytes, field.offset as usize, field.kind, node)?;
    }
    Some(bytes)
}

fn put(bytes: &mut [u8], at: usize, kind: FieldKind, node: &Node<'_>) -> Option<()> {
    let mut number = |size: u8, value: u64| {
        let size = usize::from(size.min(8));
        bytes.get_mut(at..at + size)?.copy_from_slice(&value.to_le_bytes()[..size]);
        Some(())
    };
    match kind {
        FieldKind::Signed(size) | FieldKind::Unsigned(size) | FieldKind::Hex(size) => {
            number(size, register(ArgKind::Address, node)?)
        }
        FieldKind::Mode(size) => number(size, register(ArgKind::Mode, node)?),
        FieldKind::Dev(size) => number(size, register(ArgKind::Dev, node)?),
        FieldKind::Flags(size, set) => number(size, register(ArgKind::Flags(set), node)?),
        FieldKind::Enum(size, set) | FieldKind::Named(size, set) => {
            number(size, register(ArgKind::Enum(set), node)?)
        }
        FieldKind::Signal => number(4, register(ArgKind::Signal, node)?),
        FieldKind::Fd => number(4, register(ArgKind::Fd, node)?),
        FieldKind::SigSet => number(8, memory::signal_set(node)?),
        FieldKind::Text(size) | FieldKind::Bytes(size) => {
            let Node::Text { bytes: text, cut: false } = node else { return None };
            let text = text.get(..text.len().min(size.into()))?;
            bytes.get_mut(at..at + text.len())?.copy_from_slice(text);
            Some(())
        }
        FieldKind::Struct(layout) => {
            let inner = encoded(Of::Struct(layout), node, 0)?;
            bytes.get_mut(at..at + inner.len())?.copy_from_slice(&inner);
            Some(())
        }
        FieldKind::Array(count, kind) => {
            let Node::List { items, .. } = node else { return None };
            let size = memory::field_bytes(kind)?;
            for (index, item) in items.iter().enumerate().take(count.into()) {
                put(bytes, at + index * size, *kind, item)?;
            }
            Some(())
        }
    }
}
