//! How the sections of an extent are packed.

use std::io::Read;

/// Codes on disk.
const NONE: u8 = 0;
const ZLIB: u8 = 2;
const BZIP2: u8 = 3;
const LZF: u8 = 4;
/// Those that are known by name alone.
const OTHERS: &[(u8, &str)] = &[(1, "lzo"), (5, "snappy"), (6, "lz4"), (7, "lz4hc")];

/// What one packed byte may unpack to, at most: more is a lie. bzip2 has runs of 45 MB in 40 bytes.
const RATIO_MAX: &[(u8, usize)] = &[(NONE, 1), (ZLIB, 1040), (BZIP2, 1 << 21), (LZF, 140)];

/// How a file is packed that is written. Every reader has these.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Codec {
    /// Not at all, as Re-Animator writes.
    None,
    /// Fast.
    #[default]
    Lzf,
    /// Small.
    Zlib,
}

impl Codec {
    /// Packs a section: its code, and the bytes where they became fewer.
    pub fn pack(self, raw: &[u8]) -> (u8, Option<Vec<u8>>) {
        let packed = match self {
            Codec::None => None,
            Codec::Lzf => lzf::compress(raw).ok().map(|packed| (LZF, packed)),
            Codec::Zlib => zlib(raw).map(|packed| (ZLIB, packed)),
        };
        match packed {
            Some((code, packed)) if packed.len() < raw.len() => (code, Some(packed)),
            _ => (NONE, None),
        }
    }
}

fn zlib(raw: &[u8]) -> Option<Vec<u8>> {
    let mut packed = Vec::with_capacity(raw.len() / 2);
    let mut reader = flate2::read::ZlibEncoder::new(raw, flate2::Compression::default());
    reader.read_to_end(&mut packed).ok()?;
    Some(packed)
}

/// Unpacks a section that is said to have `len` bytes, appending to `out`.
pub fn unpack(code: u8, packed: &[u8], len: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let ratio = RATIO_MAX.iter().find(|(known, _)| *known == code).map(|(_, ratio)| *ratio);
    let Some(ratio) = ratio else {
        let name = OTHERS.iter().find(|(known, _)| *known == code).map(|(_, name)| *name);
        return Err(match name {
            Some(name) => format!("it is packed with {name}; only zlib, bzip2 and lzf are read"),
            None => format!("it is packed in an unknown way, {code}"),
        });
    };
    if len > packed.len().saturating_mul(ratio) {
        return Err(format!("{} packed bytes cannot hold {len}", packed.len()));
    }
    let before = out.len();
    let unpacked = match code {
        NONE => {
            out.extend_from_slice(packed);
            true
        }
        // One byte more shows that there is more.
        ZLIB => read(flate2::read::ZlibDecoder::new(packed), len, out),
        BZIP2 => read(bzip2::read::BzDecoder::new(packed), len, out),
        _ => lzf::decompress(packed, len).map(|unpacked| out.extend_from_slice(&unpacked)).is_ok(),
    };
    if !unpacked {
        return Err("its packed bytes are damaged".into());
    }
    match out.len() - before {
        found if found == len => Ok(()),
        found => Err(format!("it unpacks to {found} bytes or more; {len} are announced")),
    }
}

fn read(from: impl Read, len: usize, out: &mut Vec<u8>) -> bool {
    from.take(len as u64 + 1).read_to_end(out).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        (0..100_000u32).map(|n| (n / 7 % 50) as u8).collect()
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let raw = sample();
        for codec in [Codec::None, Codec::Lzf, Codec::Zlib] {
            let (code, packed) = codec.pack(&raw);
            assert_eq!(packed.is_some(), codec != Codec::None);
            let mut out = b"before".to_vec();
            unpack(code, packed.as_ref().unwrap_or(&raw), raw.len(), &mut out).unwrap();
            assert_eq!(out[6..], raw);
        }
    }

    #[test]
    fn bytes_that_do_not_become_fewer_stay_as_they_are() {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let noise: Vec<u8> = (0..1000).map(|_| next()).collect();
        assert_eq!(Codec::Lzf.pack(&noise), (NONE, None));
        assert_eq!(Codec::Zlib.pack(&noise), (NONE, None));
        assert_eq!(Codec::Zlib.pack(b""), (NONE, None));
    }

    #[test]
    fn other_lengths_than_announced_are_errors() {
        let raw = sample();
        for codec in [Codec::Lzf, Codec::Zlib] {
            let (code, packed) = codec.pack(&raw);
            let packed = packed.unwrap();
            for len in [0, raw.len() - 1, raw.len() + 1, usize::MAX] {
                assert!(unpack(code, &packed, len, &mut Vec::new()).is_err(), "{codec:?} {len}");
            }
        }
        assert!(unpack(1, &raw, 10, &mut Vec::new()).unwrap_err().contains("lzo"));
        assert!(unpack(99, &raw, 10, &mut Vec::new()).is_err());
    }
}
