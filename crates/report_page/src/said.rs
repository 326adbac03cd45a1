//! What other commands of ours said as JSON, read back: it comes from a file, so it may be anything.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::Value;
use trace::event::Preamble;

use crate::tables::shown;

/// Limit for the bytes of the file; what our commands print is far less.
const BYTES_MAX: u64 = 64 << 20;
/// Longest time that is believed: some 31 years.
const SECONDS_MAX: f64 = 1e9;

/// Reads the file as text and parses it. Errors begin with its name.
pub fn read<T>(path: &Path, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, String> {
    let name = path.display();
    let fail = |error: &dyn std::fmt::Display| format!("{name}: {error}");
    let file = File::open(path).map_err(|error| fail(&error))?;
    let mut text = String::new();
    let read = file.take(BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| fail(&error))?;
    parse(&text).map_err(|error| fail(&error))
}

/// Returns false if what was said is of another recording. Imported traces may have no start time.
pub fn is_of(said: &Value, preamble: &Preamble) -> bool {
    let of = &said["recording"];
    let known = (of["host"].as_str(), number(&of["began_ns"]));
    preamble.epoch_ns == 0
        || of.is_null()
        || known == (Some(&preamble.host), Some(preamble.epoch_ns))
}

/// Returns a number without sign; large ones are strings.
pub fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Returns seconds as nanoseconds, if they make sense.
pub fn seconds_as_ns(value: &Value) -> Option<u64> {
    let seconds = value.as_f64().filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds))?;
    Some((seconds * 1e9) as u64)
}

/// Returns a name or a text, shortened and without control characters.
pub fn text(value: &Value) -> String {
    harmless(value.as_str().or(value["base64"].as_str()).unwrap_or_default())
}

/// Shortens a text and escapes control characters.
pub fn harmless(text: &str) -> String {
    shown(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_make_sense_or_are_none() {
        assert_eq!(number(&json!("18446744073709551615")), Some(u64::MAX));
        assert_eq!((number(&json!(-1)), number(&json!([7]))), (None, None));
        assert_eq!(seconds_as_ns(&json!(1.5)), Some(1_500_000_000));
        for bad in [json!(-0.1), json!(1e300), json!("1"), json!(null)] {
            assert_eq!(seconds_as_ns(&bad), None, "{bad}");
        }
    }
}
