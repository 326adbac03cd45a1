//! Visits the fields of an event in the order of its row: to write and read them, here and in
//! exports.

use syscalls::record::SIGINFO_BYTES;

use crate::event::{
    Data, EventKind, FieldValue, GapWhy, OpenFd, OtherEvent, ProcessState, StartHow, UnknownEvent,
};
use crate::event_table::{EventRow, Field, FieldType, ROWS};
use crate::format::event_number;
use crate::kernel::{KernelEvent, get_fields, get_words, put_fields, put_words};
use crate::wire::Malformed;

/// A code has no meaning in this version: the event is one that this version does not know.
pub const UNKNOWN_CODE: Malformed = Malformed("an event has an unknown code");

/// Does something with each field: writes the value, or replaces it by one that it reads.
pub trait FieldVisitor {
    /// A byte.
    fn u8(&mut self, field: &'static Field, value: &mut u8) -> Result<(), Malformed>;
    /// A number.
    fn u64(&mut self, field: &'static Field, value: &mut u64) -> Result<(), Malformed>;
    /// A signed number.
    fn i64(&mut self, field: &'static Field, value: &mut i64) -> Result<(), Malformed>;
    /// A signed number that may be missing.
    fn optional_i32(
        &mut self,
        field: &'static Field,
        value: &mut Option<i32>,
    ) -> Result<(), Malformed>;
    /// A string of bytes.
    fn bytes(&mut self, field: &'static Field, value: &mut Vec<u8>) -> Result<(), Malformed>;
    /// The beginning of a siginfo.
    fn siginfo(
        &mut self,
        field: &'static Field,
        value: &mut [u8; SIGINFO_BYTES],
    ) -> Result<(), Malformed>;
    /// Four numbers of 32 bits.
    fn four_u32(&mut self, field: &'static Field, value: &mut [u32; 4]) -> Result<(), Malformed>;
    /// A list of numbers of 32 bits.
    fn list_u32(&mut self, field: &'static Field, value: &mut Vec<u32>) -> Result<(), Malformed>;
    /// A list of pairs.
    fn pairs(
        &mut self,
        field: &'static Field,
        value: &mut Vec<(u64, u64)>,
    ) -> Result<(), Malformed>;
    /// A list of open descriptors.
    fn descriptors(
        &mut self,
        field: &'static Field,
        value: &mut Vec<OpenFd>,
    ) -> Result<(), Malformed>;
    /// A list of items of memory.
    fn memory(&mut self, field: &'static Field, value: &mut Vec<Data>) -> Result<(), Malformed>;

    /// A number of 32 bits.
    fn u32(&mut self, field: &'static Field, value: &mut u32) -> Result<(), Malformed> {
        let mut wide = u64::from(*value);
        self.u64(field, &mut wide)?;
        *value = u32::try_from(wide).map_err(|_| Malformed("a number has more than 32 bits"))?;
        Ok(())
    }

    /// A string of text.
    fn text(&mut self, field: &'static Field, value: &mut String) -> Result<(), Malformed> {
        let mut bytes = std::mem::take(value).into_bytes();
        self.bytes(field, &mut bytes)?;
        *value = String::from_utf8(bytes).map_err(|_| Malformed("text is not UTF-8"))?;
        Ok(())
    }
}

impl FieldValue {
    /// The value of a field that is missing.
    fn missing(ty: FieldType) -> FieldValue {
        match ty {
            FieldType::I64 => FieldValue::Signed(0),
            FieldType::Bytes => FieldValue::Bytes(Vec::new()),
            FieldType::Text => FieldValue::Text(String::new()),
            _ => FieldValue::Unsigned(0),
        }
    }

    fn visit(
        &mut self,
        field: &'static Field,
        visitor: &mut impl FieldVisitor,
    ) -> Result<(), Malformed> {
        match self {
            FieldValue::Unsigned(value) if field.ty == FieldType::U8 => {
                let mut byte = *value as u8;
                visitor.u8(field, &mut byte)?;
                *value = byte.into();
                Ok(())
            }
            FieldValue::Unsigned(value) if field.ty == FieldType::U32 => {
                let mut narrow = *value as u32;
                visitor.u32(field, &mut narrow)?;
                *value = narrow.into();
                Ok(())
            }
            FieldValue::Unsigned(value) => visitor.u64(field, value),
            FieldValue::Signed(value) => visitor.i64(field, value),
            FieldValue::Bytes(value) => visitor.bytes(field, value),
            FieldValue::Text(value) => visitor.text(field, value),
        }
    }
}

/// Deals out the fields of a row, in their order.
struct Dealer(std::slice::Iter<'static, Field>);

impl Dealer {
    fn next(&mut self, ty: FieldType) -> Result<&'static Field, Malformed> {
        let field = self.0.next().ok_or(Malformed("its row has fewer fields"))?;
        debug_assert_eq!(field.ty, ty, "code and row of {} differ", field.name);
        Ok(field)
    }
}

impl EventKind {
    /// Its row; `None` for calls, and for what this version does not know.
    pub fn row(&self) -> Option<&'static EventRow> {
        let number = match self {
            EventKind::Call(_) | EventKind::Unknown(_) => return None,
            EventKind::Other(other) => return Some(other.row),
            EventKind::Signal { .. } => event_number::SIGNAL,
            EventKind::Start { .. } => event_number::START,
            EventKind::Image { .. } => event_number::IMAGE,
            EventKind::End { .. } => event_number::END,
            EventKind::Stall { .. } => event_number::STALL,
            EventKind::Gap { .. } => event_number::GAP,
            EventKind::State(_) => event_number::STATE,
            EventKind::Exit { .. } => event_number::EXIT,
            EventKind::Kernel(_) => event_number::KERNEL,
            EventKind::KernelLayout(_) => event_number::KERNEL_LAYOUT,
        };
        ROWS.iter().find(|row| row.number == number)
    }

    /// An event of a kind, with nothing in it.
    pub fn blank(row: &'static EventRow) -> EventKind {
        let event = row.number;
        match event {
            event_number::SIGNAL => {
                EventKind::Signal { signal: 0, handler: 0, info: [0; SIGINFO_BYTES] }
            }
            event_number::START => {
                EventKind::Start { how: StartHow::Launch, process: 0, parent: 0, pid: 0, tid: 0 }
            }
            event_number::IMAGE => EventKind::Image { tid: 0, data: Vec::new() },
            event_number::END => EventKind::End { calls: 0 },
            event_number::STALL => EventKind::Stall { ns: 0 },
            event_number::GAP => {
                EventKind::Gap { why: GapWhy::RecorderLost, detail: 0, text: String::new() }
            }
            event_number::STATE => EventKind::State(Box::default()),
            event_number::EXIT => EventKind::Exit { process: 0, status: None },
            event_number::KERNEL => EventKind::Kernel(KernelEvent::default()),
            event_number::KERNEL_LAYOUT => EventKind::KernelLayout(Box::default()),
            _ => EventKind::Other(OtherEvent::blank(row)),
        }
    }

    /// Visits its fields. A call has none, and of an unknown event nobody knows them.
    pub fn visit(&mut self, visitor: &mut impl FieldVisitor) -> Result<(), Malformed> {
        use FieldType::{Bytes, Memory, OptionalI32, Siginfo, Text, U8, U32, U64};
        let Some(row) = self.row() else { return Ok(()) };
        let mut fields = Dealer(row.fields.iter());
        match self {
            EventKind::Call(_) | EventKind::Unknown(UnknownEvent { .. }) => Ok(()),
            EventKind::Other(other) => other.visit(visitor),
            EventKind::Signal { signal, handler, info } => {
                visitor.u8(fields.next(U8)?, signal)?;
                visitor.u64(fields.next(U64)?, handler)?;
                visitor.siginfo(fields.next(Siginfo)?, info)
            }
            EventKind::Start { how, process, parent, pid, tid } => {
                let mut code = *how as u8;
                visitor.u8(fields.next(U8)?, &mut code)?;
                *how = StartHow::from_wire(code).ok_or(UNKNOWN_CODE)?;
                visitor.u32(fields.next(U32)?, process)?;
                visitor.u32(fields.next(U32)?, parent)?;
                visitor.u32(fields.next(U32)?, pid)?;
                visitor.u32(fields.next(U32)?, tid)
            }
            EventKind::Image { tid, data } => {
                visitor.u32(fields.next(U32)?, tid)?;
                visitor.memory(fields.next(Memory)?, data)
            }
            EventKind::End { calls } => visitor.u64(fields.next(U64)?, calls),
            EventKind::Stall { ns } => visitor.u64(fields.next(U64)?, ns),
            EventKind::Gap { why, detail, text } => {
                let mut code = *why as u8;
                visitor.u8(fields.next(U8)?, &mut code)?;
                *why = GapWhy::from_wire(code).ok_or(UNKNOWN_CODE)?;
                visitor.u64(fields.next(U64)?, detail)?;
                visitor.text(fields.next(Text)?, text)
            }
            EventKind::State(state) => visit_state(&mut fields, state, visitor),
            EventKind::Exit { process, status } => {
                visitor.u32(fields.next(U32)?, process)?;
                visitor.optional_i32(fields.next(OptionalI32)?, status)
            }
            EventKind::Kernel(event) => {
                visitor.u32(fields.next(U32)?, &mut event.layout)?;
                visitor.u32(fields.next(U32)?, &mut event.task)?;
                visitor.u32(fields.next(U32)?, &mut event.flags)?;
                visitor.bytes(fields.next(Bytes)?, &mut event.values)
            }
            EventKind::KernelLayout(layout) => {
                visitor.u32(fields.next(U32)?, &mut layout.number)?;
                visitor.text(fields.next(Text)?, &mut layout.system)?;
                visitor.text(fields.next(Text)?, &mut layout.name)?;
                let mut bytes = Vec::new();
                put_fields(&mut bytes, &layout.fields);
                visitor.bytes(fields.next(Bytes)?, &mut bytes)?;
                layout.fields = get_fields(&bytes)?;
                let mut bytes = Vec::new();
                if !layout.words.is_empty() {
                    put_words(&mut bytes, &layout.words);
                }
                visitor.bytes(fields.next(Bytes)?, &mut bytes)?;
                layout.words = get_words(&bytes)?;
                Ok(())
            }
        }
    }
}

fn visit_state(
    fields: &mut Dealer,
    state: &mut ProcessState,
    visitor: &mut impl FieldVisitor,
) -> Result<(), Malformed> {
    use FieldType::{Bytes, Descriptors, FourU32, ListU32, Pairs, U32, U64};
    visitor.u32(fields.next(U32)?, &mut state.process)?;
    visitor.u32(fields.next(U32)?, &mut state.pid)?;
    visitor.u32(fields.next(U32)?, &mut state.ppid)?;
    visitor.bytes(fields.next(Bytes)?, &mut state.exe)?;
    visitor.bytes(fields.next(Bytes)?, &mut state.cwd)?;
    visitor.bytes(fields.next(Bytes)?, &mut state.root)?;
    visitor.four_u32(fields.next(FourU32)?, &mut state.uids)?;
    visitor.four_u32(fields.next(FourU32)?, &mut state.gids)?;
    visitor.list_u32(fields.next(ListU32)?, &mut state.groups)?;
    visitor.u32(fields.next(U32)?, &mut state.umask)?;
    visitor.u64(fields.next(U64)?, &mut state.sig_blocked)?;
    visitor.u64(fields.next(U64)?, &mut state.sig_ignored)?;
    visitor.pairs(fields.next(Pairs)?, &mut state.limits)?;
    visitor.descriptors(fields.next(Descriptors)?, &mut state.fds)?;
    visitor.u64(fields.next(U64)?, &mut state.fds_left_out)
}

impl OtherEvent {
    /// An event of a kind, with nothing in it.
    pub fn blank(row: &'static EventRow) -> OtherEvent {
        let values = row.fields.iter().map(|field| FieldValue::missing(field.ty)).collect();
        OtherEvent { row, values }
    }

    /// Its fields with their values.
    pub fn fields(&self) -> impl Iterator<Item = (&'static Field, &FieldValue)> {
        self.row.fields.iter().zip(&self.values)
    }

    fn visit(&mut self, visitor: &mut impl FieldVisitor) -> Result<(), Malformed> {
        let fields = self.row.fields.iter().zip(&mut self.values);
        fields.into_iter().try_for_each(|(field, value)| value.visit(field, visitor))
    }
}
