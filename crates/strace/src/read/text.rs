//! Reads a text line by line and joins the halves of interrupted calls.

use std::collections::HashMap;
use std::io::{BufRead, Read};

use super::error::{ImportError, Wrong};
use super::line::{self, What};
use super::tail::duration;

/// Longest line: a buffer of a million bytes takes four million characters.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Most bytes of unfinished calls held at a time.
const WAITING_BYTES_MAX: usize = 256 << 20;
/// Most threads with unfinished calls.
const THREADS_MAX: usize = 1 << 16;
const DAY_NS: u64 = 86_400_000_000_000;
/// Time between lines if the text has no times.
const LINE_NS: u64 = 1000;
/// Times are truncated to microseconds: the most that truncation takes off a duration.
const ROUNDED_NS: u64 = 999;

/// An event read from the text.
pub struct Item {
    /// Line number.
    pub line: u64,
    /// Thread id.
    pub tid: u32,
    /// When the event began.
    pub begin_ns: u64,
    /// When it ended. Later items of the text begin after that.
    pub end_ns: u64,
    /// The kind of event.
    pub kind: ItemKind,
}

/// Kinds of events.
pub enum ItemKind {
    /// A call.
    Call {
        /// Its name.
        name: String,
        /// The text after the opening parenthesis.
        text: Vec<u8>,
    },
    /// A call that never returned.
    Lost {
        /// Its name.
        name: String,
        /// The arguments printed so far, with a closing parenthesis.
        text: Vec<u8>,
    },
    /// A signal.
    Signal {
        /// Its siginfo struct.
        text: Vec<u8>,
        /// Its number.
        number: i32,
    },
    /// The thread ended, with this status.
    Ended(i32),
    /// The exec of that thread replaced this one.
    Superseded(u32),
}

struct Half {
    name: String,
    text: Vec<u8>,
    line: u64,
    begin_ns: u64,
}

/// Reads events from a text.
pub struct Text<R> {
    source: R,
    line: u64,
    buffer: Vec<u8>,
    /// Thread id of lines that have none.
    main: u32,
    halves: HashMap<u32, Half>,
    waiting: usize,
    now_ns: u64,
    /// Midnights passed, if the text has times of day.
    days: u64,
    ended: bool,
    queued: Option<Item>,
}

impl<R: BufRead> Text<R> {
    /// Starts at the beginning of `source`.
    pub fn new(source: R, main: u32) -> Text<R> {
        Text {
            source,
            line: 0,
            buffer: Vec::new(),
            main,
            halves: HashMap::new(),
            waiting: 0,
            now_ns: 0,
            days: 0,
            ended: false,
            queued: None,
        }
    }

    /// Returns the next event.
    pub fn next(&mut self) -> Result<Option<Item>, ImportError> {
        if let Some(item) = self.queued.take() {
            return Ok(Some(item));
        }
        loop {
            if !self.fill()? {
                return Ok(self.lost(None));
            }
            let line = self.line;
            let buffer = std::mem::take(&mut self.buffer);
            let item = self.take(&buffer).map_err(|what| ImportError::Line { line, what });
            self.buffer = buffer;
            if let Some(item) = item? {
                return Ok(Some(item));
            }
        }
    }

    fn fill(&mut self) -> Result<bool, ImportError> {
        if self.ended {
            return Ok(false);
        }
        self.buffer.clear();
        let mut limited = (&mut self.source).take(LINE_BYTES_MAX + 1);
        limited.read_until(b'\n', &mut self.buffer)?;
        self.line += 1;
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        } else if self.buffer.len() as u64 > LINE_BYTES_MAX {
            let what = format!("longer than {LINE_BYTES_MAX} bytes");
            return Err(ImportError::Line { line: self.line, what });
        } else if self.buffer.is_empty() {
            self.ended = true;
            return Ok(false);
        }
        Ok(true)
    }

    fn take(&mut self, bytes: &[u8]) -> Result<Option<Item>, Wrong> {
        let line = line::split(bytes)?;
        if matches!(line.what, What::Nothing) {
            return Ok(None);
        }
        let tid = line.tid.unwrap_or(self.main);
        self.advance(line.time_ns);
        let (now_ns, number) = (self.now_ns, self.line);
        let item = |kind| Item { line: number, tid, begin_ns: now_ns, end_ns: now_ns, kind };
        Ok(Some(match line.what {
            What::Nothing => return Ok(None),
            What::Call { name, rest } => {
                let end_ns = self.end(now_ns, rest);
                let kind = ItemKind::Call { name: name.to_string(), text: rest.to_vec() };
                Item { end_ns, ..item(kind) }
            }
            What::Unfinished { name, rest } => {
                self.keep(tid, name, rest)?;
                return Ok(None);
            }
            What::Resumed { name, rest } => {
                let Some(half) = self.halves.remove(&tid) else {
                    return Err(format!("'{name}' goes on that has not begun"));
                };
                self.waiting -= half.text.len();
                if half.name != name {
                    return Err(format!("'{name}' goes on where '{}' had begun", half.name));
                }
                let mut text = half.text;
                text.extend_from_slice(rest);
                // The duration ends before strace prints the line. Lines of other threads in
                // between may be what this call waited for, so the call ends now.
                let end_ns = self.end(half.begin_ns, rest);
                let kind = ItemKind::Call { name: half.name, text };
                Item { begin_ns: half.begin_ns, end_ns, ..item(kind) }
            }
            What::Signal { name, rest } => {
                let signal = super::number::signal(name);
                let signal = signal.ok_or_else(|| format!("'{name}' is not a signal"))?;
                item(ItemKind::Signal { text: rest.to_vec(), number: signal })
            }
            What::Ended(status) => match self.lost(Some(tid)) {
                // Its unfinished call comes first.
                Some(call) => {
                    self.queued = Some(item(ItemKind::Ended(status)));
                    call
                }
                None => item(ItemKind::Ended(status)),
            },
            What::Superseded(by) => {
                if let Some(half) = self.halves.remove(&tid) {
                    self.waiting -= half.text.len();
                }
                if let Some(half) = self.halves.remove(&by) {
                    self.halves.insert(tid, half);
                }
                item(ItemKind::Superseded(by))
            }
        }))
    }

    fn keep(&mut self, tid: u32, name: &str, rest: &[u8]) -> Result<(), Wrong> {
        self.waiting += rest.len();
        if self.waiting > WAITING_BYTES_MAX || self.halves.len() >= THREADS_MAX {
            return Err("too many calls that have not come back".into());
        }
        let half = Half {
            name: name.to_string(),
            text: rest.to_vec(),
            line: self.line,
            begin_ns: self.now_ns,
        };
        match self.halves.insert(tid, half) {
            Some(old) => Err(format!("'{name}' begins before '{}' has come back", old.name)),
            None => Ok(()),
        }
    }

    /// Takes an unfinished call that will never return: of this thread, or at the end of any.
    fn lost(&mut self, tid: Option<u32>) -> Option<Item> {
        let tid = tid.or_else(|| self.halves.keys().min().copied())?;
        let half = self.halves.remove(&tid)?;
        self.waiting -= half.text.len();
        let mut text = half.text;
        text.push(b')');
        let kind = ItemKind::Lost { name: half.name, text };
        Some(Item { line: half.line, tid, begin_ns: half.begin_ns, end_ns: self.now_ns, kind })
    }

    /// Returns when a call ended whose line is the current one, and moves the clock there: later
    /// lines begin after it even if times have only seconds.
    fn end(&mut self, begin_ns: u64, rest: &[u8]) -> u64 {
        let took_ns = duration(rest).map_or(0, |took_ns| took_ns.saturating_add(ROUNDED_NS));
        self.now_ns = self.now_ns.max(begin_ns.saturating_add(took_ns));
        self.now_ns
    }

    /// Advances the clock with each line. A time of day that jumps back means midnight has passed.
    fn advance(&mut self, time_ns: Option<u64>) {
        let time = match time_ns {
            None => self.now_ns.saturating_add(LINE_NS),
            Some(time) if time < DAY_NS => {
                let today = self.days.saturating_mul(DAY_NS).saturating_add(time);
                if today.saturating_add(DAY_NS / 2) < self.now_ns {
                    self.days += 1;
                }
                self.days.saturating_mul(DAY_NS).saturating_add(time)
            }
            Some(time) => time,
        };
        self.now_ns = self.now_ns.saturating_add(1).max(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begin and end of each item.
    fn times(text: &str) -> Vec<(u64, u64)> {
        let mut reader = Text::new(text.as_bytes(), 1);
        let items = std::iter::from_fn(|| reader.next().expect("a text"));
        items.map(|item| (item.begin_ns, item.end_ns)).collect()
    }

    #[test]
    fn what_goes_on_ends_after_all_that_stands_before() {
        let text = "1 0.000010 read(3,  <unfinished ...>\n\
                    2 0.000080 write(4, \"a\", 1) = 1 <0.000004>\n\
                    1 0.000096 <... read resumed>\"a\", 1) = 1 <0.000051>\n\
                    1 0.000097 close(3) = 0 <0.000003>\n";
        let write = (80_000, 84_999);
        assert_eq!(times(text), [write, (10_000, 96_000), (97_000, 100_999)]);
    }

    #[test]
    fn times_in_seconds_keep_the_order_of_lines() {
        let text = "1 00:00:05 read(3,  <unfinished ...>\n\
                    2 00:00:05 openat(AT_FDCWD, \"a\", O_RDONLY) = 5 <0.500000>\n\
                    2 00:00:05 write(4, \"a\", 1) = 1 <0.000004>\n\
                    1 00:00:05 <... read resumed>\"a\", 1) = 1 <0.500051>\n";
        let times = times(text);
        let [open, write, read] = times[..] else { panic!("{times:?}") };
        assert!(open.1 < write.0, "a thread's calls come one after the other");
        assert!(write.1 < read.1, "a read ends after the write that it waited for");
        assert_eq!(open.1 - open.0, 500_000_999, "durations are kept");
    }

    fn calls(text: &str) -> Vec<(u32, u64, String)> {
        let mut reader = Text::new(text.as_bytes(), 1);
        let mut all = Vec::new();
        while let Some(item) = reader.next().expect("a text") {
            let what = match item.kind {
                ItemKind::Call { name, text } | ItemKind::Lost { name, text } => {
                    format!("{name}({}", String::from_utf8(text).expect("text"))
                }
                ItemKind::Ended(status) => format!("ended {status}"),
                ItemKind::Signal { number, .. } => format!("signal {number}"),
                ItemKind::Superseded(by) => format!("superseded {by}"),
            };
            all.push((item.tid, item.begin_ns, what));
        }
        all
    }

    #[test]
    fn halves_come_together() {
        let text = "1 0.000001 read(3,  <unfinished ...>\n\
                    2 0.000002 pause( <unfinished ...>\n\
                    1 0.000003 <... read resumed>\"\", 5) = 0\n\
                    2 0.000004 +++ killed by SIGKILL +++\n";
        let expected = [
            (1, 1000, "read(3,  \"\", 5) = 0".to_string()),
            (2, 2000, "pause( )".to_string()),
            (2, 4000, "ended 9".to_string()),
        ];
        assert_eq!(calls(text), expected);
    }

    #[test]
    fn time_goes_on_at_midnight() {
        let text = "23:59:59 sync() = 0\n00:00:01 sync() = 0\n";
        let times: Vec<u64> = calls(text).iter().map(|call| call.1).collect();
        assert_eq!(times, [86_399_000_000_000, 86_401_000_000_000]);
    }

    #[test]
    fn halves_that_do_not_fit() {
        for text in [
            "1 <... read resumed>) = 0",
            "1 read( <unfinished ...>\n1 <... write resumed>) = 0",
            "1 read( <unfinished ...>\n1 write( <unfinished ...>",
        ] {
            let mut reader = Text::new(text.as_bytes(), 1);
            let error = std::iter::from_fn(|| reader.next().transpose()).find_map(Result::err);
            assert!(error.is_some(), "{text}");
        }
    }
}
