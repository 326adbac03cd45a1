//! A trace as printed by `reenact show --json` and `reenact info --json`.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_128;

use crate::expectation::fnv;
use crate::stage::Stage;
use crate::{Complaint, ensure};

/// The hash and length of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// FNV-1a hash.
    pub hash: u64,
    /// Number of bytes.
    pub len: u64,
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}:{}", self.hash, self.len)
    }
}

/// A call in a trace.
#[derive(Clone, Debug)]
pub struct Call {
    /// Name of the call.
    pub name: String,
    /// Result, -1 for errors; `None` if the call did not return.
    pub ret: Option<i64>,
    /// Name of the error.
    pub errno: Option<String>,
    /// Buffers by the name of their argument.
    pub data: Vec<(String, Buffer)>,
    /// The printed arguments.
    pub text: String,
}

/// Counts of a call in `info --json`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count {
    /// Number of calls.
    pub count: u64,
    /// Number of failed calls.
    pub errors: u64,
}

/// The contents of `info --json`.
#[derive(Clone, Debug)]
pub struct Info {
    /// True if the trace proves that it is complete.
    pub complete: bool,
    /// Number of missing calls.
    pub lost: u64,
    /// Number of gap records.
    pub gaps: u64,
    /// What they are, as JSON, for messages.
    pub gap_list: String,
    /// Total number of calls.
    pub calls: u64,
    /// Counts by call name.
    pub by_call: BTreeMap<String, Count>,
    /// Bytes in buffers.
    pub data_bytes: u64,
    /// Bytes in distinct buffers.
    pub stored_bytes: u64,
    /// Size of the trace in bytes.
    pub trace_bytes: u64,
    /// Number of processes.
    pub processes: u64,
    /// Number of threads.
    pub threads: u64,
    /// Time that threads waited for the recorder, in nanoseconds.
    pub stall_ns: u64,
    /// Number of calls recorded through a signal.
    pub slow_path_calls: u64,
}

/// Parses a number that may be written as a string.
fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

fn natural(value: &Value, name: &str) -> Result<u64, Complaint> {
    let field = &value[name];
    let number = field.as_u64().or_else(|| field.as_str()?.parse().ok());
    number.ok_or_else(|| format!("info --json: {name} is {field}, which is no natural number"))
}

impl Info {
    /// Runs `reenact info` on a trace.
    pub fn of(stage: &Stage, trace: &Path) -> Result<Info, Complaint> {
        let output = Command::new(&stage.reenact)
            .args(["info", "--json", "--verify"])
            .arg(trace)
            .output()
            .map_err(|error| format!("reenact info: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(!said.contains("panicked"), "reenact info panicked:\n{said}");
        let value: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
            format!("reenact info: {}, {error}; it said:\n{said}", output.status)
        })?;
        let info = Info::parse(&value)?;
        // `reenact info --verify` exits with 3 if a trace is not complete.
        let code = if info.complete { 0 } else { 3 };
        ensure!(
            output.status.code() == Some(code),
            "info --verify: complete is {}, but the exit is {}:\n{said}",
            info.complete,
            output.status
        );
        Ok(info)
    }

    fn parse(value: &Value) -> Result<Info, Complaint> {
        let mut by_call = BTreeMap::new();
        let table = value["by_call"].as_object().ok_or("info --json: by_call is no object")?;
        for (name, counts) in table {
            let (count, errors) = (natural(counts, "count")?, natural(counts, "errors")?);
            by_call.insert(name.clone(), Count { count, errors });
        }
        ensure!(value["epoch_ns"].is_string(), "info --json: epoch_ns is no string");
        Ok(Info {
            complete: value["complete"].as_bool().ok_or("info --json: complete is no bool")?,
            lost: natural(value, "lost")?,
            gaps: natural(value, "gaps")?,
            gap_list: value["gap_list"].to_string(),
            calls: natural(value, "calls")?,
            by_call,
            data_bytes: natural(value, "data_bytes")?,
            stored_bytes: natural(value, "stored_bytes")?,
            trace_bytes: natural(value, "trace_bytes")?,
            processes: natural(value, "processes")?,
            threads: natural(value, "threads")?,
            stall_ns: natural(value, "stall_ns")?,
            slow_path_calls: natural(value, "slow_path_calls")?,
        })
    }

    /// Returns the number of calls of that name.
    pub fn count(&self, name: &str) -> u64 {
        self.by_call.get(name).map_or(0, |count| count.count)
    }

    /// Fails unless everything was recorded.
    pub fn must_be_complete(&self) -> Result<(), Complaint> {
        ensure!(self.complete && self.gaps == 0, "the trace is not complete: {self:?}");
        self.must_have_lost_nothing()
    }

    /// Fails unless everything was recorded, except for gaps of these kinds.
    pub fn must_be_complete_but_for(
        &self,
        stage: &Stage,
        trace: &Path,
        allowed: &[String],
    ) -> Result<(), Complaint> {
        if self.gaps == 0 {
            return self.must_be_complete();
        }
        let mut seen = 0;
        show(stage, trace, &["--data", "none"], |event| {
            if event["type"] == "gap" {
                seen += 1;
                let why = event["why"].as_str().unwrap_or_default();
                ensure!(allowed.iter().any(|kind| kind == why), "the trace has a gap: {event}");
            }
            Ok(())
        })?;
        ensure!(seen == self.gaps, "{} gaps, but {seen} are shown", self.gaps);
        self.must_have_lost_nothing()
    }

    fn must_have_lost_nothing(&self) -> Result<(), Complaint> {
        ensure!(self.lost == 0, "{} calls were lost: {self:?}", self.lost);
        let sum: u64 = self.by_call.values().map(|count| count.count).sum();
        ensure!(sum == self.calls, "{} calls, but by name they are {sum}", self.calls);
        Ok(())
    }
}

/// Runs `show --json` with these arguments and calls `each` for every line.
pub fn show(
    stage: &Stage,
    trace: &Path,
    args: &[&str],
    mut each: impl FnMut(&Value) -> Result<(), Complaint>,
) -> Result<(), Complaint> {
    let mut child = Command::new(&stage.reenact)
        .args(["show", "--json"])
        .args(args)
        .arg(trace)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("reenact show: {error}"))?;
    let stdout = child.stdout.take().ok_or("reenact show has no standard output")?;
    let mut lines = BufReader::with_capacity(1 << 20, stdout);
    let mut line = Vec::new();
    let mut result = Ok(());
    while lines.read_until(b'\n', &mut line).map_err(|error| format!("reenact show: {error}"))? > 0
    {
        if result.is_ok() {
            result = serde_json::from_slice(&line)
                .map_err(|error| {
                    format!("show --json: {error}: {}", String::from_utf8_lossy(&line))
                })
                .and_then(|value| each(&value));
        }
        line.clear();
    }
    let output = child.wait_with_output().map_err(|error| format!("reenact show: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "reenact show: {}; it said:\n{said}", output.status);
    result
}

/// Returns the calls of these names.
pub fn calls(stage: &Stage, trace: &Path, names: &str) -> Result<Vec<Call>, Complaint> {
    let mut calls = Vec::new();
    show(stage, trace, &["--call", names], |value| {
        if value["type"] == "call" {
            calls.push(call(value)?);
        }
        Ok(())
    })?;
    Ok(calls)
}

fn call(value: &Value) -> Result<Call, Complaint> {
    let name = value["call"].as_str().ok_or_else(|| format!("a call without a name: {value}"))?;
    let mut data = Vec::new();
    for (arg, buffer) in value["data"].as_object().into_iter().flatten() {
        let encoded = buffer["base64"].as_str().unwrap_or("");
        let bytes = base64(encoded).ok_or_else(|| format!("{name}: {arg} is not base64"))?;
        let cut = buffer["cut"].as_bool().ok_or_else(|| format!("{name}: {arg}: no cut"))?;
        if !cut {
            let shown = integer(&buffer["len"]);
            let have = bytes.len();
            ensure!(shown == Some(have as i64), "{name}: {arg}: len {shown:?}, but {have} bytes");
            let hash = format!("{:032x}", xxh3_128(&bytes));
            ensure!(buffer["hash"] == hash.as_str(), "{name}: {arg}: the hash is of other bytes");
        }
        data.push((arg.clone(), Buffer { hash: fnv(&bytes), len: bytes.len() as u64 }));
    }
    Ok(Call {
        name: name.to_string(),
        ret: integer(&value["ret"]),
        errno: value["errno"].as_str().map(str::to_string),
        data,
        text: format!("{} {} \"late\":{}", value["args"], value["paths"], value["late"]),
    })
}

/// Decodes base64.
pub fn base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 3);
    for group in text.chunks(4) {
        let mut bits = 0u32;
        for &c in group {
            let six = match c {
                b'A'..=b'Z' => c - b'A',
                b'a'..=b'z' => c - b'a' + 26,
                b'0'..=b'9' => c - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(six);
        }
        if group.len() == 1 {
            return None;
        }
        bits <<= 6 * (4 - group.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_every_length() {
        for (text, bytes) in
            [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYg==", "foob")]
        {
            assert_eq!(base64(text).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(base64("Z"), None);
        assert_eq!(base64("Zm9*"), None);
    }

    #[test]
    fn a_hash_of_other_bytes_is_noticed() {
        let line = |hash: &str| {
            format!(
                r#"{{"type":"call","call":"read","args":{{}},"paths":{{}},"ret":"9007199254740993",
                   "errno":null,"data":{{"buf":{{"len":3,"cut":false,"base64":"Zm9v","hash":"{hash}"}}}}}}"#
            )
        };
        let good = line(&format!("{:032x}", xxh3_128(b"foo")));
        let call = super::call(&serde_json::from_str(&good).unwrap()).unwrap();
        assert_eq!(call.ret, Some(9_007_199_254_740_993));
        assert_eq!(call.data, [("buf".to_string(), Buffer { hash: fnv(b"foo"), len: 3 })]);
        assert!(super::call(&serde_json::from_str(&line("00")).unwrap()).is_err());
    }
}
