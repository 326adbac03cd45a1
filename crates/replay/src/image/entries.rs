//! Directory entries as getdents returns them.

use super::tree::NodeKind;

/// Parses names and types, without `.` and `..`.
pub fn parse(bytes: &[u8], is_64: bool) -> Vec<(&[u8], NodeKind)> {
    let mut found = Vec::new();
    let mut left = bytes;
    // d_ino and d_off precede the length.
    while let Some(len) = left.get(16..18) {
        let len = usize::from(u16::from_le_bytes([len[0], len[1]]));
        let Some((entry, rest)) = left.split_at_checked(len).filter(|_| len >= 20) else { break };
        left = rest;
        let (kind, text) =
            if is_64 { (entry[18], &entry[19..]) } else { (entry[len - 1], &entry[18..len - 1]) };
        let name = text.split(|&c| c == 0).next().unwrap_or_default();
        let plain = !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/');
        if plain {
            found.push((name, of_type(kind)));
        }
    }
    found
}

/// Converts a `d_type`, whose values are the type bits of a mode.
fn of_type(kind: u8) -> NodeKind {
    match kind {
        0 => NodeKind::Unknown,
        kind => NodeKind::of_mode(u32::from(kind) << 12),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry64(name: &str, kind: u8) -> Vec<u8> {
        let len = (19 + name.len() + 1).next_multiple_of(8);
        let mut entry = vec![7; 16];
        entry.extend((len as u16).to_le_bytes());
        entry.push(kind);
        entry.extend(name.as_bytes());
        entry.resize(len, 0);
        entry
    }

    #[test]
    fn names_and_types_are_found() {
        let list = [entry64(".", 4), entry64("file", 8), entry64("link-with-a-long-name", 10)];
        let bytes = list.concat();
        let expected: [(&[u8], NodeKind); 2] =
            [(b"file", NodeKind::File), (b"link-with-a-long-name", NodeKind::Link)];
        assert_eq!(parse(&bytes, true), expected);
        assert_eq!(parse(&bytes[..bytes.len() - 1], true), expected[..1]);
    }

    #[test]
    fn nonsense_ends() {
        assert!(parse(&[0; 64], true).is_empty());
        assert!(parse(&[0xff; 64], false).is_empty());
    }
}
