//! The checksums of the format.

/// Initial value of two of the three hash words.
const GOLDEN: u32 = 0x9e37_79b9;
/// Third initial word of the hash of an extent (also third word of the chain), and of a tail.
const BODY_START: u32 = 1972;
const TAIL_START: u32 = 1776;
/// Number of length words hashed at a time.
const LENGTHS_AT_A_TIME: usize = 1024;

/// Bob Jenkins' mixing function.
const fn mix(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32, u32) {
    a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> 13);
    b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << 8);
    c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> 13);
    a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> 12);
    b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << 16);
    c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> 5);
    a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> 3);
    b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << 10);
    c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> 15);
    (a, b, c)
}

/// Bob Jenkins' hash of 1996, independent of the byte order of the machine.
pub fn jenkins(start: u32, bytes: &[u8]) -> u32 {
    let (mut a, mut b, mut c) = (GOLDEN, GOLDEN, start);
    let (blocks, rest) = bytes.as_chunks::<12>();
    for block in blocks {
        a = a.wrapping_add(u32::from_le_bytes([block[0], block[1], block[2], block[3]]));
        b = b.wrapping_add(u32::from_le_bytes([block[4], block[5], block[6], block[7]]));
        c = c.wrapping_add(u32::from_le_bytes([block[8], block[9], block[10], block[11]]));
        (a, b, c) = mix(a, b, c);
    }
    // The lowest byte of the third word is for the length.
    c = c.wrapping_add(bytes.len() as u32);
    for (at, byte) in rest.iter().enumerate() {
        let word = u32::from(*byte);
        match at {
            0..4 => a = a.wrapping_add(word << (8 * at)),
            4..8 => b = b.wrapping_add(word << (8 * (at - 4))),
            _ => c = c.wrapping_add(word << (8 * (at - 7))),
        }
    }
    mix(a, b, c).2
}

/// Hashes the unpacked sections of an extent; `lengths` are the length words of its entries.
pub fn body(fixed: &[u8], variable: &[u8], lengths: &[u8]) -> u32 {
    let mut hash = jenkins(jenkins(BODY_START, fixed), variable);
    let mut groups = lengths.chunks_exact(4 * LENGTHS_AT_A_TIME);
    for group in &mut groups {
        hash = jenkins(hash, group);
    }
    jenkins(hash, groups.remainder())
}

/// Hashes a tail without its own hash.
pub fn tail(bytes: &[u8]) -> u32 {
    jenkins(TAIL_START, bytes)
}

/// Extends the checksum over all extents by one.
pub const fn chain(before: u32, body: u32, adler: u32) -> u32 {
    mix(body ^ adler, before, BODY_START).2
}

/// Computes the checksum of an extent as stored, without the checksum itself.
pub fn adler(before: &[u8], after: &[&[u8]]) -> u32 {
    let mut sum = simd_adler32::Adler32::new();
    sum.write(before);
    after.iter().for_each(|bytes| sum.write(bytes));
    sum.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_one_of_1996() {
        // Lengths around a block; expected values computed by an independent program.
        let known = [
            (0, 0x17c6_f823),
            (1, 0x3a28_4885),
            (3, 0x2f61_dcab),
            (4, 0x89ec_511f),
            (8, 0x9cc5_5956),
            (11, 0x24b0_0f7c),
            (12, 0xc187_ab7b),
            (13, 0xb3b4_54fc),
            (24, 0xf85b_7c93),
            (26, 0x9acb_446f),
        ];
        for (len, hash) in known {
            assert_eq!(jenkins(7, &b"abcdefghijklmnopqrstuvwxyz"[..len]), hash, "{len} bytes");
        }
    }
}
