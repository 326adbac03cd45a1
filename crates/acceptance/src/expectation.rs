//! Compares what test programs claim to have done with a trace.

use std::collections::{BTreeMap, BTreeSet};

use crate::Complaint;
use crate::shown::{Buffer, Call};

/// Computes the 64-bit FNV-1a hash of bytes, as the test programs do.
pub fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &b| (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// A call that a program claims to have made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Expected {
    /// The line of output, for complaints.
    pub line: String,
    /// Name of the call.
    pub call: String,
    /// The result, if given.
    pub ret: Option<i64>,
    /// Name of the error. Without one, the call must have succeeded, unless `ret` is `None`.
    pub errno: Option<String>,
    /// Buffers that the call carried.
    pub data: Vec<Buffer>,
    /// Texts that its printed arguments must contain.
    pub text: Vec<String>,
}

/// All claims in a program's output.
#[derive(Default, Debug)]
pub struct Expectations {
    /// Calls that must each be found.
    pub calls: Vec<Expected>,
    /// Number of calls by name.
    pub counts: BTreeMap<String, u64>,
    /// The rest of the output.
    pub rest: Vec<u8>,
}

impl Expectations {
    /// Parses a program's standard output.
    pub fn parse(stdout: &[u8]) -> Result<Expectations, Complaint> {
        let mut found = Expectations::default();
        for line in stdout.split_inclusive(|&b| b == b'\n') {
            let text = String::from_utf8_lossy(line);
            let bad = || format!("not understood: {text}");
            if let Some(words) = text.strip_prefix("EXPECT ") {
                found.calls.push(expected(words.trim_end()).ok_or_else(bad)?);
            } else if let Some(words) = text.strip_prefix("EXPECT_COUNT ") {
                let (call, count) = count(words.trim_end()).ok_or_else(bad)?;
                found.counts.insert(call, count);
            } else {
                found.rest.extend_from_slice(line);
            }
        }
        Ok(found)
    }

    /// Returns the names of the calls that are expected one by one.
    pub fn names(&self) -> BTreeSet<&str> {
        self.calls.iter().map(|expected| expected.call.as_str()).collect()
    }

    /// Finds a call of its own in the trace for each expected call.
    pub fn check(&self, shown: Vec<Call>) -> Result<(), Complaint> {
        let mut by_name: BTreeMap<String, Vec<Option<Call>>> = BTreeMap::new();
        for call in shown {
            by_name.entry(call.name.clone()).or_default().push(Some(call));
        }
        let mut missing = Vec::new();
        // The most specific ones are matched first.
        let mut order: Vec<&Expected> = self.calls.iter().collect();
        order.sort_by_key(|e| std::cmp::Reverse((e.ret.is_some(), e.data.len() + e.text.len())));
        for expected in order {
            let all = by_name.get_mut(&expected.call).map_or(&mut [][..], |calls| &mut calls[..]);
            match all.iter_mut().find(|call| call.as_ref().is_some_and(|c| expected.fits(c))) {
                Some(call) => *call = None,
                None => missing.push(format!("{}\n{}", expected.line, nearest(expected, all))),
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        missing.truncate(5);
        Err(format!("not found in the trace:\n{}", missing.join("\n")))
    }
}

impl Expected {
    fn fits(&self, call: &Call) -> bool {
        let result = match (&self.errno, self.ret) {
            (Some(errno), _) => call.errno.as_ref() == Some(errno),
            (None, Some(ret)) => call.errno.is_none() && call.ret == Some(ret),
            (None, None) => true,
        };
        result
            && self.data.iter().all(|buffer| call.data.iter().any(|(_, shown)| shown == buffer))
            && self.text.iter().all(|text| call.text.contains(text.as_str()))
    }
}

/// Formats the most similar calls of the trace, for complaints.
fn nearest(expected: &Expected, shown: &[Option<Call>]) -> String {
    let same = |call: &&Call| match (&expected.errno, expected.ret) {
        (Some(errno), _) => call.errno.as_ref() == Some(errno),
        (None, ret) => ret.is_none() || call.ret == ret,
    };
    let mut lines: Vec<String> = shown
        .iter()
        .flatten()
        .filter(same)
        .take(2)
        .map(|call| {
            let data: Vec<String> = call.data.iter().map(|(arg, b)| format!("{arg}={b}")).collect();
            let text: String = call.text.chars().take(300).collect();
            format!("    has {:?} {:?} {} {text}", call.ret, call.errno, data.join(" "))
        })
        .collect();
    if lines.is_empty() {
        lines.push(format!("    none of {} calls has this result", shown.iter().flatten().count()));
    }
    lines.join("\n")
}

fn expected(words: &str) -> Option<Expected> {
    let mut found = Expected { line: words.to_string(), ..Expected::default() };
    for word in words.split(' ') {
        let (key, value) = word.split_once('=')?;
        match key {
            "call" => found.call = value.to_string(),
            "ret" if value == "*" => found.ret = None,
            "ret" => found.ret = Some(value.parse().ok()?),
            "errno" => found.errno = Some(value.to_string()),
            "data" => {
                let (hash, len) = value.split_once(':')?;
                let hash = u64::from_str_radix(hash, 16).ok()?;
                found.data.push(Buffer { hash, len: len.parse().ok()? });
            }
            "text" => found.text.push(value.to_string()),
            _ => return None,
        }
    }
    (!found.call.is_empty()).then_some(found)
}

fn count(words: &str) -> Option<(String, u64)> {
    let (call, count) = words.split_once(' ')?;
    Some((call.strip_prefix("call=")?.to_string(), count.strip_prefix("count=")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, ret: i64, bytes: &[u8]) -> Call {
        let buffer = Buffer { hash: fnv(bytes), len: bytes.len() as u64 };
        Call {
            name: name.into(),
            ret: Some(ret),
            errno: None,
            data: vec![("buf".into(), buffer)],
            text: "{\"flags\":[\"O_CREAT\"]}".into(),
        }
    }

    #[test]
    fn hash_of_the_empty_string_and_of_a() {
        assert_eq!(fnv(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv(b"a"), 0xaf63_dc4c_8601_ec8c);
    }

    #[test]
    fn each_expectation_needs_a_call_of_its_own() {
        let a = format!("EXPECT call=read ret=1 data={:016x}:1 text=O_CREAT\n", fnv(b"a"));
        let twice = Expectations::parse(format!("{a}{a}hello\n").as_bytes()).unwrap();
        assert_eq!(twice.rest, b"hello\n");
        assert!(twice.check(vec![call("read", 1, b"a")]).is_err());
        assert!(twice.check(vec![call("read", 1, b"a"), call("read", 1, b"b")]).is_err());
        assert!(twice.check(vec![call("read", 1, b"a"), call("read", 2, b"a")]).is_err());
        assert_eq!(twice.check(vec![call("read", 1, b"a"), call("read", 1, b"a")]), Ok(()));
    }

    #[test]
    fn results_and_errors() {
        let lines = b"EXPECT call=open ret=3\nEXPECT call=open ret=* errno=ENOENT\n\
                      EXPECT_COUNT call=open count=2\n";
        let expectations = Expectations::parse(lines).unwrap();
        assert_eq!(expectations.counts["open"], 2);
        let failed = Call { ret: Some(-1), errno: Some("ENOENT".into()), ..call("open", 0, b"") };
        assert_eq!(expectations.check(vec![failed.clone(), call("open", 3, b"")]), Ok(()));
        assert!(expectations.check(vec![failed.clone(), failed]).is_err());
        assert!(Expectations::parse(b"EXPECT ret=3\n").is_err());
        assert!(Expectations::parse(b"EXPECT call=x data=zz:1\n").is_err());
    }
}
