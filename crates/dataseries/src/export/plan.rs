//! Plans for filling the records of each type, computed once.

use std::collections::HashMap;
use std::sync::LazyLock;

use model::Contents;
use model::contents::latest;
use syscalls::record::part;
use trace::event::{Call, Data};

use crate::calls::{self, Form, Row, Source};
use crate::file::types::Type;
use crate::schema::{self, OTHER, SNIA, UNKNOWN, common, is_bytes};

/// Most buffers of a vector, by the kernel's limit.
const VECTOR_MAX: usize = 1024;
/// Bytes of `struct iovec`.
const IOVEC_BYTES: usize = 16;

/// A field and its source.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Position of the field.
    pub field: usize,
    /// Source of the value.
    pub source: Source,
}

/// A bit field and its source.
#[derive(Clone, Copy, Debug)]
pub struct BitPart {
    /// Position of the field.
    pub field: usize,
    /// Source of the number.
    pub source: Source,
    /// The bit is set only if this number has one of these values.
    pub when: Option<(Source, &'static [i64])>,
    /// Mask applied to the number.
    pub mask: i64,
    /// Value that the masked number must have.
    pub value: i64,
}

/// Plan for filling the records of a type.
pub struct Plan {
    /// Position of the type.
    pub number: usize,
    /// Row of the type, if it is in SNIA's schema.
    pub row: Option<&'static Row>,
    /// Mapping of a call to records.
    pub form: Form,
    /// Fields other than single bits.
    pub parts: Vec<Part>,
    /// Fields that are single bits.
    pub bits: Vec<BitPart>,
    /// Positions of fields that only some forms have.
    pub named: Named,
}

/// Positions of fields that only some forms have; 0 if absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Named {
    /// Call number, for calls without a row.
    pub number: usize,
    /// execve: path.
    pub path: usize,
    /// execve: continuation number.
    pub continuation: usize,
    /// execve: argument.
    pub argument: usize,
    /// execve: environment variable.
    pub environment: usize,
    /// readv and the like: index of the buffer.
    pub element: usize,
    /// readv and the like: its length.
    pub requested: usize,
    /// readv and the like: its bytes.
    pub data: usize,
}

impl Plan {
    fn new(number: usize, name: &str, of: &Type) -> Plan {
        let mut plan = Plan {
            number,
            row: name.strip_prefix(SNIA).and_then(calls::by_name),
            form: Form::One,
            parts: Vec::new(),
            bits: Vec::new(),
            named: Named::default(),
        };
        let at = |name: &str| of.field(name).unwrap_or_default();
        plan.named = Named {
            number: at("number"),
            path: at("given_pathname"),
            continuation: at("continuation_number"),
            argument: at("argument"),
            environment: at("environment"),
            element: at("iov_number"),
            requested: at("bytes_requested"),
            data: at("iov_data_read").max(at("iov_data_written")),
        };
        if let Some(row) = plan.row {
            plan.form = row.form;
            let fields = row.fields.iter().chain(row.result);
            let parts = fields.filter(|(_, source)| *source != Source::Form);
            plan.parts =
                parts.map(|(name, source)| Part { field: at(name), source: *source }).collect();
            for bits in row.bits {
                plan.bits.extend(bits.fields.iter().filter_map(|bit| {
                    let (field, source, when) = (of.field(bit.field)?, bits.of, bits.when);
                    Some(BitPart { field, source, when, mask: bit.mask, value: bit.value })
                }));
            }
        } else if let Some(row) = name.strip_prefix(OTHER).and_then(syscalls::by_name) {
            let sources = row.args.iter().zip(0u8..).map(|(arg, n)| match is_bytes(arg.kind) {
                true => Source::Data(n),
                false => Source::Arg(n),
            });
            let fields = common::COUNT..;
            plan.parts =
                fields.zip(sources).map(|(field, source)| Part { field, source }).collect();
        } else {
            let fields = plan.named.number + 1..;
            let sources = (0..6).map(Source::Arg);
            plan.parts =
                fields.zip(sources).map(|(field, source)| Part { field, source }).collect();
        }
        plan
    }

    /// Returns whether this is the type of that name in SNIA's schema.
    pub fn is(&self, name: &str) -> bool {
        self.row.is_some_and(|row| row.name == name)
    }

    /// Returns whether this is a type of SNIA's schema.
    pub fn of_snia(&self) -> bool {
        self.row.is_some()
    }

    /// Returns the number of records of a call.
    pub fn records(&self, call: &Call, contents: &mut dyn Contents) -> u32 {
        match self.form {
            Form::One => 1,
            Form::Exec => 2 + strings(call).len() as u32,
            Form::Vector | Form::Message => 1 + (self.elements(call, contents).len() as u32),
        }
    }

    /// Returns the lengths of a vector's buffers.
    pub fn elements(&self, call: &Call, contents: &mut dyn Contents) -> Vec<u64> {
        let part = if self.form == Form::Message { part::VECTOR } else { part::WHOLE };
        let vector = latest(&call.data, 1, part, 0);
        let bytes = vector
            .and_then(|data| contents.read(&data.content, VECTOR_MAX * IOVEC_BYTES).ok())
            .unwrap_or_default();
        let (elements, _) = bytes.as_chunks::<IOVEC_BYTES>();
        let len = |element: &[u8; IOVEC_BYTES]| {
            u64::from_le_bytes(std::array::from_fn(|byte| element[8 + byte]))
        };
        elements.iter().map(len).collect()
    }

    /// Returns the fields that hold bytes of buffers.
    pub fn value_fields(&self) -> Vec<usize> {
        match self.form {
            Form::One => {
                let data = self.parts.iter().filter(|part| matches!(part.source, Source::Data(_)));
                data.map(|part| part.field).collect()
            }
            Form::Exec => Vec::new(),
            Form::Vector | Form::Message => vec![self.named.data],
        }
    }

    /// Returns the piece of data that a field of a record holds in full.
    pub fn piece<'c>(&self, record: u32, field: usize, call: &'c Call) -> Option<&'c Data> {
        match self.form {
            Form::One => {
                let part = self.parts.iter().find(|part| part.field == field)?;
                match part.source {
                    Source::Data(n) => latest(&call.data, n, part::WHOLE, 0),
                    _ => None,
                }
            }
            Form::Exec => None,
            Form::Vector | Form::Message => element(self.form, call, record.checked_sub(1)?),
        }
    }
}

/// Returns the contents of a buffer of a vector.
pub fn element(form: Form, call: &Call, number: u32) -> Option<&Data> {
    let mut contents = call.data.iter().filter(|data| data.arg == 1 && data.part == part::CONTENT);
    match form {
        Form::Vector => contents.find(|data| u32::from(data.index) == number),
        _ => contents.nth(number as usize),
    }
}

/// Returns arguments and environment of an exec, in order: whether each is an argument, and its
/// index in the call's data.
pub fn strings(call: &Call) -> Vec<(bool, usize)> {
    let of = |arg: u8| {
        let mine = move |data: &Data| data.arg == arg && data.part == part::WHOLE;
        let places = call.data.iter().enumerate().filter(move |(_, data)| mine(data));
        places.map(move |(place, _)| (arg == 1, place))
    };
    of(1).chain(of(2)).collect()
}

/// The plans of all calls.
pub struct Plans {
    all: Vec<Plan>,
    by_number: Vec<usize>,
    by_name: HashMap<String, usize>,
    unknown: usize,
}

/// The plans of all types that stand for calls.
pub static PLANS: LazyLock<Plans> = LazyLock::new(Plans::new);

impl Plans {
    fn new() -> Plans {
        let (mut all, mut by_name) = (Vec::new(), HashMap::new());
        for (number, (name, _)) in schema::TYPES.iter().enumerate() {
            if name.starts_with(SNIA) || name.starts_with(OTHER) {
                by_name.insert(name.clone(), all.len());
                all.push(Plan::new(number, name, &schema::PARSED[number]));
            }
        }
        let unknown = by_name.get(UNKNOWN).copied().unwrap_or_default();
        let by_number = (0..syscalls::table::NUMBER_LIMIT)
            .map(|nr| by_name.get(&schema::of_call(nr as u16)).copied().unwrap_or(unknown));
        let by_number = by_number.collect();
        Plans { all, by_number, by_name, unknown }
    }

    /// Returns the plan of a call.
    pub fn of(&self, nr: u16) -> &Plan {
        &self.all[self.by_number.get(usize::from(nr)).copied().unwrap_or(self.unknown)]
    }

    /// Returns the plan of a type.
    pub fn named(&self, name: &str) -> Option<&Plan> {
        self.by_name.get(name).map(|at| &self.all[*at])
    }
}
