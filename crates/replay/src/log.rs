//! Log of single calls. Tasks have none of our descriptors, so a host thread takes the lines and
//! writes them.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::{Contents, Moment};

/// Most queued lines; tasks wait when the queue is full.
const LINES_MAX: usize = 1 << 14;
/// How long the writer sleeps between polls.
const PAUSE: Duration = Duration::from_millis(10);

/// Outcome of a call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Came {
    /// Another result, or other bytes.
    Mismatch,
    /// A mismatch that proves nothing, as the result depends on concurrent calls.
    Raced,
    /// A mismatch that proves nothing, as the trace lacks writes to the file.
    Unseen,
    /// Result taken from the trace.
    Simulated,
    /// Left out.
    Skipped,
    /// Withheld, as it would have created something harmful.
    Withheld,
    /// Not possible here.
    Unsupported,
    /// Made, but the result could not be checked.
    Unverified,
    /// As recorded.
    Verified,
}

impl Came {
    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            Came::Mismatch => "mismatch",
            Came::Raced => "raced",
            Came::Unseen => "unseen",
            Came::Simulated => "simulated",
            Came::Skipped => "skipped",
            Came::Withheld => "withheld",
            Came::Unsupported => "unsupported",
            Came::Unverified => "unverified",
            Came::Verified => "verified",
        }
    }
}

/// Which calls are logged; each level includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Mismatches.
    Mismatch,
    /// Mismatches that prove nothing.
    Raced,
    /// Calls that were not replayed.
    Simulated,
    /// All calls.
    All,
}

impl Level {
    fn tells(self, came: Came) -> bool {
        let most = match self {
            Level::Mismatch => Came::Mismatch,
            Level::Raced => Came::Unseen,
            Level::Simulated => Came::Unsupported,
            Level::All => Came::Verified,
        };
        came <= most
    }
}

/// Description of a call for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Sequence number in the trace.
    pub seq: u64,
    /// Its process.
    pub pid: Option<u32>,
    /// Its thread.
    pub tid: Option<u32>,
    /// Its name.
    pub name: &'static str,
    /// Text of the call, with the paths of descriptors.
    pub text: String,
}

/// Log entry of one call.
#[derive(Clone, Debug)]
pub struct Line {
    /// The call.
    pub about: About,
    /// Its outcome.
    pub came: Came,
    /// The argument or field that differs, or why the call was not made.
    pub what: String,
    /// Recorded value.
    pub expected: String,
    /// Our value; empty if it is the same, or the call was not made.
    pub found: String,
    /// Time since the start of the replay.
    pub at: Duration,
}

/// Makes the text of a call.
pub type Describe<'a> = dyn Fn(&Moment<'_>, &mut dyn Contents) -> String + 'a;

/// Which calls to log, and where.
pub struct Wanted<'a> {
    /// Which calls.
    pub level: Level,
    /// Makes the text of a call.
    pub describe: &'a Describe<'a>,
    /// Writes a line.
    pub write: &'a mut (dyn FnMut(&Line) -> io::Result<()> + Send),
}

/// Queue of lines not yet written.
#[derive(Debug)]
pub struct Log {
    level: Level,
    began: Instant,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    lines: Vec<Line>,
    closed: bool,
}

impl Log {
    /// Creates an empty log.
    pub fn new(level: Level) -> Log {
        let (queue, changed) = Default::default();
        Log { level, began: Instant::now(), queue, changed }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether calls with this outcome are logged.
    pub fn tells(&self, came: Came) -> bool {
        self.level.tells(came)
    }

    /// Adds a line and sets its time. Waits while the queue is full.
    pub fn add(&self, mut line: Line) {
        let full = |queue: &mut Queue| queue.lines.len() >= LINES_MAX && !queue.closed;
        let queue = self.changed.wait_while(self.queue(), full);
        let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
        if !queue.closed {
            line.at = self.began.elapsed();
            queue.lines.push(line);
        }
    }

    /// Writes lines until the log is closed.
    pub fn serve(&self, write: &mut (dyn FnMut(&Line) -> io::Result<()> + Send)) -> io::Result<()> {
        loop {
            let mut queue = self.queue();
            let (lines, closed) = (std::mem::take(&mut queue.lines), queue.closed);
            drop(queue);
            self.changed.notify_all();
            if let Err(error) = lines.iter().try_for_each(&mut *write) {
                self.close();
                return Err(error);
            }
            if closed && lines.is_empty() {
                return Ok(());
            }
            if lines.is_empty() {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Closes the log: no more lines come.
    pub fn close(&self) {
        self.queue().closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seq: u64) -> Line {
        let about = About { seq, pid: None, tid: None, name: "read", text: String::new() };
        let [what, expected, found] = Default::default();
        Line { about, came: Came::Verified, what, expected, found, at: Duration::ZERO }
    }

    #[test]
    fn all_lines_are_written_in_order_however_slow_the_writer_is() {
        const LINES: u64 = 3 * LINES_MAX as u64;
        let log = Log::new(Level::All);
        let mut seen = Vec::new();
        std::thread::scope(|scope| {
            let write = |line: &Line| {
                seen.push(line.about.seq);
                Ok(())
            };
            let (log, mut write) = (&log, write);
            scope.spawn(move || log.serve(&mut write).unwrap());
            (0..LINES).for_each(|seq| log.add(line(seq)));
            log.close();
        });
        assert_eq!(seen, (0..LINES).collect::<Vec<_>>());
    }

    #[test]
    fn nobody_waits_for_a_writer_that_failed() {
        let log = Log::new(Level::All);
        std::thread::scope(|scope| {
            scope.spawn(|| log.serve(&mut |_| Err(io::ErrorKind::StorageFull.into())).unwrap_err());
            (0..2 * LINES_MAX as u64).for_each(|seq| log.add(line(seq)));
        });
    }

    #[test]
    fn levels_tell_what_the_one_before_tells_and_more() {
        let told = |level: Level| {
            let all =
                [Came::Mismatch, Came::Raced, Came::Simulated, Came::Withheld, Came::Verified];
            all.map(|came| level.tells(came))
        };
        assert_eq!(told(Level::Mismatch), [true, false, false, false, false]);
        assert_eq!(told(Level::Raced), [true, true, false, false, false]);
        assert_eq!(told(Level::Simulated), [true, true, true, true, false]);
        assert_eq!(told(Level::All), [true; 5]);
    }
}
