//! Instructions by which code learns what no call tells: the processor's counter and random numbers, and the
//! number of the CPU.

use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use memchr::memchr_iter;
use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};

use super::segments::{Segment, segments};

/// Bytes after which a decoder that began anywhere is in step.
const STEP_BYTES: usize = 256;
/// Maximum length of an instruction.
const INSTRUCTION_MAX: usize = 15;
/// Maximum number of places that are told.
const PLACES_MAX: usize = 256;

/// What a file of code learns so.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Untold {
    /// Where in the file, and the instruction's name.
    pub places: Vec<(u64, &'static str)>,
    /// It is a program whose libraries are files of their own.
    pub has_interpreter: bool,
}

/// Looks through a file of code.
pub fn untold(file: &[u8]) -> Option<Untold> {
    let header = FileHeader64::<object::Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let mut parts = header.program_headers(endian, file).ok()?.iter();
    let mut found = Untold {
        has_interpreter: parts.any(|part| part.p_type(endian) == PT_INTERP),
        ..Untold::default()
    };
    for segment in segments(file)?.iter().filter(|segment| segment.executable) {
        look(file, segment, &mut found.places);
    }
    Some(found)
}

fn look(file: &[u8], segment: &Segment, places: &mut Vec<(u64, &'static str)>) {
    let text = segment.bytes(file);
    for at in memchr_iter(0x0f, text) {
        let may_be = match text.get(at + 1..) {
            Some([0x31, ..] | [0x01, 0xf9, ..]) => true,
            Some([0xc7, operand, ..]) => *operand >= 0xf0,
            _ => false,
        };
        if !may_be {
            continue;
        }
        let from = at.saturating_sub(STEP_BYTES);
        let to = (at + INSTRUCTION_MAX).min(text.len());
        let decoder = Decoder::with_ip(64, &text[from..to], from as u64, DecoderOptions::NONE);
        let it = decoder.into_iter().find(|found| found.next_ip() > at as u64);
        let Some(name) = it.and_then(|found| name(found.mnemonic())) else { continue };
        if places.len() < PLACES_MAX {
            places.push((segment.offset + at as u64, name));
        }
    }
}

fn name(of: Mnemonic) -> Option<&'static str> {
    Some(match of {
        Mnemonic::Rdtsc => "rdtsc",
        Mnemonic::Rdtscp => "rdtscp",
        Mnemonic::Rdrand => "rdrand",
        Mnemonic::Rdseed => "rdseed",
        Mnemonic::Rdpid => "rdpid",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_told_from_their_bytes_in_others() {
        let mut text = vec![0x90; 300];
        text.extend([0x0f, 0x31]); // rdtsc
        text.extend([0xb8, 0x0f, 0x31, 0, 0]); // mov $0x310f, %eax
        text.extend([0x48, 0x0f, 0xc7, 0xf0]); // rdrand %rax
        text.extend([0x0f, 0xc7, 0x0e]); // cmpxchg8b (%rsi)
        text.extend([0x0f, 0x01, 0xf9]); // rdtscp
        let segment =
            Segment { offset: 0, len: text.len() as u64, address: 0x1000, executable: true };
        let mut places = Vec::new();
        look(&text, &segment, &mut places);
        assert_eq!(places, [(300, "rdtsc"), (308, "rdrand"), (314, "rdtscp")]);
    }

    #[test]
    fn what_is_no_code_has_none() {
        assert_eq!(untold(b"#!/bin/sh\n"), None);
        assert_eq!(untold(&[]), None);
    }
}
