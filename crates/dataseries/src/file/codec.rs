//! Compression of the sections of an extent.

use std::io::Read;

/// Codec numbers in files.
const NONE: u8 = 0;
const LZO: u8 = 1;
const ZLIB: u8 = 2;
const BZIP2: u8 = 3;
const LZF: u8 = 4;
const SNAPPY: u8 = 5;
const LZ4: u8 = 6;
/// Same format as LZ4, compressed with more effort.
const LZ4_HC: u8 = 7;

/// Most bytes that one compressed byte may expand to. bzip2 packs runs of 45 MB into 40 bytes.
const RATIO_MAX: &[(u8, usize)] = &[
    (NONE, 1),
    (LZO, 256),
    (ZLIB, 1040),
    (BZIP2, 1 << 21),
    (LZF, 140),
    (SNAPPY, 64),
    (LZ4, 256),
    (LZ4_HC, 256),
];

/// Codecs for writing, which every reader supports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Codec {
    /// Uncompressed, as Re-Animator writes.
    None,
    /// Fast compression.
    #[default]
    Lzf,
    /// Strong compression.
    Zlib,
}

impl Codec {
    /// Compresses a section. Returns the codec number, and the bytes if they became fewer.
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

/// Decompresses a section of `len` bytes and appends it to `out`.
pub fn unpack(code: u8, packed: &[u8], len: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let ratio = RATIO_MAX.iter().find(|(known, _)| *known == code).map(|(_, ratio)| *ratio);
    let ratio = ratio.ok_or_else(|| format!("it is packed in an unknown way, {code}"))?;
    if len > packed.len().saturating_mul(ratio) {
        return Err(format!("{} packed bytes cannot hold {len}", packed.len()));
    }
    let before = out.len();
    let unpacked = match code {
        NONE => {
            out.extend_from_slice(packed);
            true
        }
        // `read` takes one byte more than `len`, to notice longer sections.
        ZLIB => read(flate2::read::ZlibDecoder::new(packed), len, out),
        BZIP2 => read(bzip2::read::BzDecoder::new(packed), len, out),
        LZF => lzf::decompress(packed, len).map(|bytes| out.extend_from_slice(&bytes)).is_ok(),
        LZO => write(len, out, |room| lzokay::decompress::decompress(packed, room).ok()),
        SNAPPY => write(len, out, |room| snap::raw::Decoder::new().decompress(packed, room).ok()),
        _ => write(len, out, |room| lz4_flex::block::decompress_into(packed, room).ok()),
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

/// Decompresses into a buffer of `len` bytes and keeps the part that `unpack` used.
fn write(len: usize, out: &mut Vec<u8>, unpack: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
    let before = out.len();
    out.resize(before + len, 0);
    let used = unpack(&mut out[before..]);
    out.truncate(before + used.unwrap_or(0));
    used.is_some()
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
        assert!(unpack(99, &raw, 10, &mut Vec::new()).is_err());
    }

    /// The test bytes, compressed by the stock tools' libraries: lzo 2.10, snappy 1.1.9, lz4 1.9.4.
    const PACKED: &[(u8, &[u8])] = &[
        (LZO, include_bytes!("../../tests/packed/lzo")),
        (SNAPPY, include_bytes!("../../tests/packed/snappy")),
        (LZ4, include_bytes!("../../tests/packed/lz4")),
        (LZ4_HC, include_bytes!("../../tests/packed/lz4hc")),
    ];

    /// Near and far repetitions, long runs, and bytes that do not repeat.
    fn packed_by_others() -> Vec<u8> {
        let mut raw: Vec<u8> = (0..12)
            .flat_map(|n| {
                format!("read({}, \"{}\", 4096) = {}\n", n % 7, n * n, n % 5).into_bytes()
            })
            .collect();
        raw.resize(raw.len() + 17_000, 0);
        raw.extend(b"read(3, \"9\", 4096) = 3\nread(4");
        raw.extend(0..40);
        raw
    }

    #[test]
    fn what_others_packed_is_unpacked() {
        let raw = packed_by_others();
        for (code, packed) in PACKED {
            let mut out = b"before".to_vec();
            unpack(*code, packed, raw.len(), &mut out).unwrap();
            assert!(out[6..] == raw, "{code}");
            for len in [0, raw.len() - 1, raw.len() + 1, usize::MAX] {
                assert!(unpack(*code, packed, len, &mut Vec::new()).is_err(), "{code} {len}");
            }
        }
    }

    #[test]
    fn damaged_bytes_are_errors_or_other_bytes() {
        let len = packed_by_others().len();
        for (code, packed) in PACKED {
            for at in 0..packed.len() {
                for byte in [0, 1, 0x10, 0x20, 0x7f, 0xff] {
                    let mut damaged = packed.to_vec();
                    damaged[at] ^= byte;
                    let mut out = Vec::new();
                    if unpack(*code, &damaged, len, &mut out).is_ok() {
                        assert_eq!(out.len(), len);
                    }
                    assert!(unpack(*code, &packed[..at], len, &mut Vec::new()).is_err());
                }
            }
        }
    }
}
