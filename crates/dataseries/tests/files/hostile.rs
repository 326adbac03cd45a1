//! Damaged and malicious files give a result or an error, never a panic.

use dataseries::Codec;

use crate::copies::{swapped, with_own, without_own};
use crate::sample;

/// Number of files tried, in the short and the long tier.
const COUNT: u64 = 1000;
const COUNT_LONG: u64 = 10_000;

/// A small pseudo-random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

/// Returns offset and size of each extent.
fn extents(bytes: &[u8]) -> Vec<(usize, usize)> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut all, mut at) = (Vec::new(), 40);
    while word(at) != u32::MAX {
        let pad = |n: usize| n.next_multiple_of(4);
        let sections = pad(word(at) as usize) + pad(word(at + 4) as usize);
        let size = pad(28 + bytes[at + 26] as usize) + sections;
        all.push((at, size));
        at += size;
    }
    all
}

/// Corrects the checksum of an extent, so that its contents are read.
fn mend(bytes: &mut [u8], at: usize, size: usize) {
    let Some(extent) = bytes.get_mut(at..at + size) else { return };
    let adler = dataseries::file::hash::adler(&extent[..16], &[&extent[20..]]);
    extent[16..20].copy_from_slice(&adler.to_le_bytes());
}

fn mutate(bytes: &mut Vec<u8>, extents: &[(usize, usize)], random: &mut Random) {
    // The extent of types is most of a file, so extents are chosen with equal probability.
    let (at, size) = extents[random.below(extents.len())];
    for _ in 0..1 + random.below(3) {
        let near = if random.below(2) == 0 { 60 } else { size };
        let place = (at + random.below(near.min(size))).min(bytes.len().saturating_sub(1));
        match random.below(8) {
            0 => bytes.truncate(place),
            1 => bytes[place] ^= 1 << random.below(8),
            2..5 => bytes[place] = random.below(256) as u8,
            5 => {
                let end = (place + random.below(16)).min(bytes.len());
                bytes[place..end].fill(if random.below(2) == 0 { 0 } else { 0xff });
            }
            6 => {
                let end = (place + random.below(64)).min(bytes.len());
                bytes.drain(place..end);
            }
            _ => {
                let piece = bytes[place..(place + random.below(64)).min(bytes.len())].to_vec();
                bytes.splice(place..place, piece);
            }
        }
        if bytes.is_empty() {
            return;
        }
    }
    if random.below(4) > 0 {
        mend(bytes, at, size);
    }
}

#[test]
fn mutated_files_are_answered() {
    let own = with_own(&sample::export(&sample::open(sample::trace()), Codec::Lzf));
    let foreign = without_own(&sample::export(&sample::open(sample::trace()), Codec::None));
    let big = swapped(&foreign);
    let files = [own, foreign.clone(), foreign, big];
    let extents: Vec<_> = files
        .iter()
        .map(|file| match file[4] {
            0x78 => extents(file),
            _ => extents(&files[1]),
        })
        .collect();
    let mut random = Random(0x5eed_5eed_5eed_5eed);
    let mut read = 0;
    let long = std::env::var_os("REENACT_SOAK").is_some_and(|value| !value.is_empty());
    let count = if long { COUNT_LONG } else { COUNT };
    for round in 0..count {
        let which = random.below(files.len());
        let mut bytes = files[which].clone();
        mutate(&mut bytes, &extents[which], &mut random);
        let Ok((imported, trace)) = sample::import(&bytes) else { continue };
        read += 1;
        assert!(imported.calls < 1000, "round {round}: {imported:?}");
        let trace = sample::open(trace);
        assert_eq!(trace.events().filter(|event| event.is_err()).count(), 0, "round {round}");
        assert!(!trace.completeness().complete, "round {round}");
    }
    // The test is only useful if many files pass the first checks.
    assert!(read > count / 4, "{read}");
}

#[test]
fn claims_beyond_the_limits_are_refused() {
    let foreign = without_own(&sample::export(&sample::open(sample::trace()), Codec::None));
    let extents = extents(&foreign);
    let (at, size) = extents[1];
    for (field, value) in [(0, u32::MAX), (4, 1 << 30), (8, u32::MAX), (12, u32::MAX), (8, 1 << 24)]
    {
        let mut bytes = foreign.clone();
        bytes[at + field..at + field + 4].copy_from_slice(&value.to_le_bytes());
        mend(&mut bytes, at, size);
        let (imported, _) = sample::import(&bytes).unwrap();
        assert!(!imported.damage.is_empty(), "field {field}: {imported:?}");
        let told = imported.damage[0].to_string();
        assert!(told.starts_with(&format!("at byte {at}:")), "{told}");
    }
}
