//! Metadata in packets, as LTTng writes them.

use crate::error::Wrong;

/// At the beginning of a packet of metadata.
const PACKET_MAGIC: u32 = 0x75D1_1D57;
/// At the beginning of metadata of CTF 2.
const CTF_2: &[u8] = b"\x1e";
/// Bytes of a packet's head.
const PACKET_HEAD: usize = 37;

/// Unpacks metadata, which may be in packets. Returns the text.
pub fn unpacked(bytes: &[u8]) -> Result<String, Wrong> {
    let word = |at: usize, is_big: bool| {
        let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(if is_big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) })
    };
    if bytes.starts_with(CTF_2) {
        return Err(Wrong::metadata(1, "this is CTF 2; CTF 1.8 can be imported"));
    }
    let is_big = match (word(0, false), word(0, true)) {
        (Some(PACKET_MAGIC), _) => false,
        (_, Some(PACKET_MAGIC)) => true,
        _ => return Ok(String::from_utf8_lossy(bytes).into_owned()),
    };
    let mut text = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let wrong =
            |what: &str| Wrong::Stream("metadata".into(), at as u64, format!("a packet {what}"));
        if word(at, is_big) != Some(PACKET_MAGIC) {
            return Err(wrong("does not begin as one"));
        }
        let content = word(at + 24, is_big).ok_or_else(|| wrong("is cut off"))? as usize / 8;
        let packet = word(at + 28, is_big).ok_or_else(|| wrong("is cut off"))? as usize / 8;
        if bytes.get(at + 32..at + 34) != Some(&[0, 0]) {
            return Err(wrong("is compressed or encrypted"));
        }
        if content < PACKET_HEAD || content > packet {
            return Err(wrong("has sizes that make no sense"));
        }
        let body = bytes.get(at + PACKET_HEAD..at + content).ok_or_else(|| wrong("is cut off"))?;
        text.extend_from_slice(body);
        at += packet;
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_metadata_are_named() {
        let said = unpacked(b"\x1e{\"type\": \"preamble\"}").unwrap_err().to_string();
        assert!(said.contains("CTF 2"), "{said}");
    }

    #[test]
    fn packets_are_put_together() {
        let mut bytes = Vec::new();
        for part in [&b"trace "[..], b"{"] {
            let content = 8 * (PACKET_HEAD + part.len()) as u32;
            bytes.extend_from_slice(&PACKET_MAGIC.to_be_bytes());
            bytes.extend_from_slice(&[0; 20]);
            bytes.extend_from_slice(&content.to_be_bytes());
            bytes.extend_from_slice(&(content + 16).to_be_bytes());
            bytes.extend_from_slice(&[0, 0, 0, 1, 8]);
            bytes.extend_from_slice(part);
            bytes.extend_from_slice(&[0; 2]);
        }
        assert_eq!(unpacked(&bytes).unwrap(), "trace {");
        for end in 4..bytes.len() {
            let _ = unpacked(&bytes[..end]);
        }
        assert_eq!(unpacked(b"trace").unwrap(), "trace");
    }
}
