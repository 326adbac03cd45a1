//! Comparison of texts while tables are compiled.

/// Returns true if two texts are the same.
pub const fn are_equal(one: &str, other: &str) -> bool {
    one.len() == other.len() && ends_with(one, other)
}

/// Returns true if a text ends like this.
pub const fn ends_with(text: &str, end: &str) -> bool {
    let (text, end) = (text.as_bytes(), end.as_bytes());
    if text.len() < end.len() {
        return false;
    }
    let (mut at, before) = (0, text.len() - end.len());
    while at < end.len() {
        if text[before + at] != end[at] {
            return false;
        }
        at += 1;
    }
    true
}
