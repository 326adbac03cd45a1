//! How the records of a type are filled, worked out once.

use std::collections::HashMap;
use std::sync::LazyLock;

use events::record::part;
use model::Contents;
use model::contents::latest;
use trace::event::{Call, Data};

use crate::calls::{self, Form, Row, Source};
use crate::file::types::Type;
use crate::schema::{self, OTHER, SNIA, UNKNOWN, common, is_bytes};

/// Elements of a vector that the kernel takes.
const VECTOR_MAX: usize = 1024;
/// Bytes of one.
const IOVEC_BYTES: usize = 16;

/// A field, and where it comes from.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its position.
    pub field: usize,
    /// Where from.
    pub source: Source,
}

/// A bit, and where it comes from.
#[derive(Clone, Copy, Debug)]
pub struct BitPart {
    /// Its position.
    pub field: usize,
    /// The number.
    pub source: Source,
    /// It means something only if this number has one of these values.
    pub when: Option<(Source, &'static [i64])>,
    /// What of the number is looked at, and what it must be.
    pub mask: i64,
    /// See `mask`.
    pub value: i64,
}

/// How the records of a type are filled.
pub struct Plan {
    /// The type's position.
    pub number: usize,
    /// Its row, for types of SNIA.
    pub row: Option<&'static Row>,
    /// One call, how many records?
    pub form: Form,
    /// The call's own fields.
    pub parts: Vec<Part>,
    /// Those of one bit.
    pub bits: Vec<BitPart>,
    /// Positions of the fields that records of some forms have.
    pub named: Named,
}

/// See [`Plan::named`]; 0 where there is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Named {
    /// The number of the call, of calls without a row.
    pub number: usize,
    /// execve.
    pub path: usize,
    /// execve.
    pub continuation: usize,
    /// execve.
    pub argument: usize,
    /// execve.
    pub environment: usize,
    /// readv and so on: the element.
    pub element: usize,
    /// Its length.
    pub requested: usize,
    /// Its bytes.
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
        } else if let Some(row) = name.strip_prefix(OTHER).and_then(events::by_name) {
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

    /// Whether it is the type of this name in SNIA's schema.
    pub fn is(&self, name: &str) -> bool {
        self.row.is_some_and(|row| row.name == name)
    }

    /// Whether it is a type of SNIA's schema.
    pub fn of_snia(&self) -> bool {
        self.row.is_some()
    }

    /// How many records a call has.
    pub fn records(&self, call: &Call, contents: &mut dyn Contents) -> u32 {
        match self.form {
            Form::One => 1,
            Form::Exec => 2 + strings(call).len() as u32,
            Form::Vector | Form::Message => 1 + (self.elements(call, contents).len() as u32),
        }
    }

    /// The lengths of a vector's buffers.
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

    /// The fields that have the bytes of buffers.
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

    /// The piece that the field of a record has, whole.
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

/// What the buffer of a vector held.
pub fn element(form: Form, call: &Call, number: u32) -> Option<&Data> {
    let mut contents = call.data.iter().filter(|data| data.arg == 1 && data.part == part::CONTENT);
    match form {
        Form::Vector => contents.find(|data| u32::from(data.index) == number),
        _ => contents.nth(number as usize),
    }
}

/// Arguments and environment of an exec, in order: whether each is an argument, and its place in
/// the call's data.
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

/// How records of all types are filled.
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
        let by_number = (0..events::table::NUMBER_LIMIT)
            .map(|nr| by_name.get(&schema::of_call(nr as u16)).copied().unwrap_or(unknown));
        let by_number = by_number.collect();
        Plans { all, by_number, by_name, unknown }
    }

    /// That of a call.
    pub fn of(&self, nr: u16) -> &Plan {
        &self.all[self.by_number.get(usize::from(nr)).copied().unwrap_or(self.unknown)]
    }

    /// That of a type.
    pub fn named(&self, name: &str) -> Option<&Plan> {
        self.by_name.get(name).map(|at| &self.all[*at])
    }
}
