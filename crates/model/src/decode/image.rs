//! Decodes argv, envp and auxv of a new program.

use syscalls::record::part;
use trace::event::Data;

use super::structs::unsigned;
use super::value::Value;
use crate::contents::{Contents, strings};

/// Limit for the string bytes that are decoded; the kernel allows 6 MiB.
const STRINGS_BYTES_MAX: usize = 16 << 20;

/// Returns the name of an auxiliary vector key.
fn auxv_name(key: u64) -> Option<&'static str> {
    const NAMES: &[(u64, &str)] = &[
        (3, "AT_PHDR"),
        (4, "AT_PHENT"),
        (5, "AT_PHNUM"),
        (6, "AT_PAGESZ"),
        (7, "AT_BASE"),
        (8, "AT_FLAGS"),
        (9, "AT_ENTRY"),
        (11, "AT_UID"),
        (12, "AT_EUID"),
        (13, "AT_GID"),
        (14, "AT_EGID"),
        (15, "AT_PLATFORM"),
        (16, "AT_HWCAP"),
        (17, "AT_CLKTCK"),
        (23, "AT_SECURE"),
        (24, "AT_BASE_PLATFORM"),
        (25, "AT_RANDOM"),
        (26, "AT_HWCAP2"),
        (27, "AT_RSEQ_FEATURE_SIZE"),
        (28, "AT_RSEQ_ALIGN"),
        (29, "AT_HWCAP3"),
        (30, "AT_HWCAP4"),
        (31, "AT_EXECFN"),
        (32, "AT_SYSINFO"),
        (33, "AT_SYSINFO_EHDR"),
        (51, "AT_MINSIGSTKSZ"),
    ];
    NAMES.iter().find(|(number, _)| *number == key).map(|(_, name)| *name)
}

fn name_of(which: u8) -> Option<&'static str> {
    match which {
        part::ARGV => Some("argv"),
        part::ENVP => Some("envp"),
        part::AUXV => Some("auxv"),
        _ => None,
    }
}

/// Returns a decoded part: `part::ARGV`, `part::ENVP` or `part::AUXV`.
pub fn find<'a>(given: &'a [(&'static str, Value)], which: u8) -> Option<&'a Value> {
    let wanted = name_of(which)?;
    given.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

/// Decodes the captured parts of argv, envp and auxv.
pub fn decode(data: &[Data], contents: &mut dyn Contents) -> Vec<(&'static str, Value)> {
    let mut fields = Vec::new();
    let mut budget = STRINGS_BYTES_MAX;
    for piece in data {
        let Some(name) = name_of(piece.part) else { continue };
        let read = contents.read(&piece.content, budget);
        budget -= read.as_ref().map_or(0, Vec::len);
        let value = match read {
            Err(why) => Value::Damaged(0, why),
            Ok(bytes) if piece.part == part::AUXV => auxv(&bytes),
            Ok(bytes) => Value::list(strings(&bytes).into_iter().map(Value::text).collect()),
        };
        fields.push((name, value));
    }
    fields
}

fn auxv(bytes: &[u8]) -> Value {
    let pairs = bytes.chunks_exact(16).map(|pair| {
        (unsigned(pair, 0, 8).unwrap_or(0), Value::Hex(unsigned(pair, 8, 8).unwrap_or(0)))
    });
    let items = pairs.take_while(|(key, _)| *key != 0).map(|(key, value)| {
        let key = match auxv_name(key) {
            Some(name) => Value::Named { value: key as i64, name },
            None => Value::Uint(key),
        };
        Value::fields(vec![("key", key), ("value", value)])
    });
    Value::list(items.collect())
}
