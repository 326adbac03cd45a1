//! Makes copies of a file as other writers might have made them: without our own types, and in the
//! other byte order.

use dataseries::Codec;
use dataseries::file::extent::Value;
use dataseries::file::hash;
use dataseries::file::reader::FileReader;
use dataseries::file::types::{FieldType, Type};
use dataseries::file::writer::FileWriter;
use dataseries::file::{HEADER_BYTES, INDEX, INDEX_XML, LIBRARY, LIBRARY_XML, TAIL_BYTES};

use crate::sample::Memory;

/// Copies the records of SNIA's types alone.
pub fn without_own(bytes: &[u8]) -> Vec<u8> {
    of_types(bytes, "IOTTAFSL")
}

/// Copies all records, and only the types in use.
pub fn with_own(bytes: &[u8]) -> Vec<u8> {
    of_types(bytes, "")
}

fn of_types(bytes: &[u8], begin: &str) -> Vec<u8> {
    let reader = FileReader::open(&bytes).unwrap();
    let used = |name: &&str| reader.extents().iter().any(|head| head.name == **name);
    let mine = reader.type_names().filter(|name| name.starts_with(begin));
    let names: Vec<&str> = mine.filter(used).collect();
    let xml: Vec<String> =
        names.iter().map(|name| reader.find(name).unwrap().xml.clone()).collect();
    let memory = Memory::default();
    let mut writer = FileWriter::new(Box::new(memory.clone()), &xml, Codec::None).unwrap();
    for head in reader.extents() {
        let Some(number) = names.iter().position(|name| *name == head.name) else { continue };
        let (extent, of) = (reader.read(head).unwrap(), reader.find(&head.name).unwrap());
        for at in 0..extent.records {
            let record = extent.record(of, at);
            let mut copy = writer.record(number).unwrap();
            for (field, kind) in of.fields.iter().enumerate() {
                match record.value(kind) {
                    Value::Null => {}
                    Value::Bool(value) => copy.bool(field, value),
                    Value::Int(value) => copy.int(field, value),
                    Value::Bytes(bytes) => copy.bytes(field, bytes),
                    other => panic!("{}: {other:?}", kind.name),
                }
            }
        }
    }
    writer.finish().unwrap();
    memory.bytes()
}

/// Converts an uncompressed file to the other byte order.
pub fn swapped(bytes: &[u8]) -> Vec<u8> {
    let reader = FileReader::open(&bytes).unwrap();
    let known = [LIBRARY_XML, INDEX_XML].map(|xml| Type::parse(xml).unwrap());
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut out = bytes.to_vec();
    let flip = |out: &mut [u8], at: usize, size: usize| out[at..at + size].reverse();
    flip(&mut out, 4, 4);
    (8..HEADER_BYTES).step_by(8).for_each(|at| flip(&mut out, at, 8));
    let (mut at, mut chain) = (HEADER_BYTES, 0);
    while word(bytes, at) != u32::MAX {
        let [fixed, variable, records] = [0, 4, 8].map(|field| word(bytes, at + field) as usize);
        let size = bytes[at + 26] as usize;
        let name = std::str::from_utf8(&bytes[at + 28..at + 28 + size]).unwrap();
        let of = match name {
            LIBRARY => &known[0],
            INDEX => &known[1],
            name => reader.find(name).unwrap(),
        };
        let from = at + (28 + size).next_multiple_of(4);
        let values = from + fixed.next_multiple_of(4);
        let end = values + variable.next_multiple_of(4);
        for record in 0..records {
            for field in &of.fields {
                let place = from + record * of.record_bytes + field.at as usize;
                match field.kind {
                    FieldType::Bool | FieldType::Byte => {}
                    FieldType::Int32 | FieldType::Variable => flip(&mut out, place, 4),
                    FieldType::Int64 | FieldType::Double => flip(&mut out, place, 8),
                }
            }
        }
        let mut lengths = Vec::new();
        let mut entry = values;
        while entry < values + variable {
            let len = word(bytes, entry) as usize;
            flip(&mut out, entry, 4);
            lengths.extend_from_slice(&out[entry..entry + 4]);
            entry += 4 + len + (12 - len % 8) % 8;
        }
        (0..24).step_by(4).for_each(|field| flip(&mut out, at + field, 4));
        let whole: Vec<u8> = [&[0; 4], &out[values..values + variable]].concat();
        let body = hash::body(&out[from..from + fixed], &whole, &lengths);
        out[at + 20..at + 24].copy_from_slice(&body.to_be_bytes());
        let adler = hash::adler(&out[at..at + 16], &[&out[at + 20..end]]);
        out[at + 16..at + 20].copy_from_slice(&adler.to_be_bytes());
        chain = hash::chain(chain, body, adler);
        at = end;
    }
    (0..16).step_by(4).for_each(|field| flip(&mut out, at + field, 4));
    flip(&mut out, at + 16, 8);
    out[at + 12..at + 16].copy_from_slice(&chain.to_be_bytes());
    let sum = hash::tail(&out[at..at + TAIL_BYTES - 4]);
    out[at + TAIL_BYTES - 4..].copy_from_slice(&sum.to_be_bytes());
    out
}
