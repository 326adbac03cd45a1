//! Names in messages.

/// Converts bytes to text; escapes them if they are not UTF-8.
pub(super) fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_string(),
        Err(_) => bytes.escape_ascii().to_string(),
    }
}
