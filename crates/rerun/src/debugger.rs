//! A debugger that looks at the re-execution: what it orders, line by line, and what it is told.
//!
//! ```text
//! goto SEQ   it has let go of the process -> "at PID TID ADDRESS CALL", or "end WHY"
//! go         it traces that process, with a breakpoint at ADDRESS
//! when       -> where the re-execution is
//! trapped    -> why the process has trapped, or nothing
//! ```

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// What a debugger orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Bring the program to where it is about to make this call.
    Goto(u64),
    /// Go on.
    Go,
    /// Tell where it is.
    When,
    /// Tell why a process has trapped.
    Trapped,
    /// It has ended.
    Gone,
}

/// A debugger.
pub struct Debugger {
    stream: UnixStream,
    orders: Receiver<Order>,
    /// Number of calls of the recording.
    calls: u64,
    /// The call to which it wants to be brought, until it is told.
    pub awaits: Option<u64>,
    /// Why a process has trapped.
    pub trapped: String,
}

impl Debugger {
    /// A debugger at the other end of the stream.
    pub fn new(stream: UnixStream, calls: u64) -> io::Result<Debugger> {
        let (sender, orders) = channel();
        let lines = BufReader::new(stream.try_clone()?).lines();
        std::thread::Builder::new().name("debugger".into()).spawn(move || {
            for line in lines.map_while(Result::ok) {
                let order = match line.split_once(' ').unwrap_or((&line, "")) {
                    ("goto", seq) => seq.parse().ok().map(Order::Goto),
                    ("go", _) => Some(Order::Go),
                    ("when", _) => Some(Order::When),
                    ("trapped", _) => Some(Order::Trapped),
                    _ => None,
                };
                let Some(order) = order else { break };
                if sender.send(order).is_err() {
                    return;
                }
            }
            let _ = sender.send(Order::Gone);
        })?;
        Ok(Debugger { stream, orders, calls, awaits: None, trapped: String::new() })
    }

    /// Takes an order. Waits no longer than a while.
    pub fn order(&mut self, wait: Duration) -> Option<Order> {
        let order = match self.orders.recv_timeout(wait) {
            Ok(order) => order,
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => Order::Gone,
        };
        match order {
            Order::Goto(seq) if seq >= self.calls => {
                self.tell(&format!("end the trace has {} calls, numbered from 0", self.calls));
                return None;
            }
            Order::Goto(seq) => self.awaits = Some(seq),
            Order::Trapped => {
                let why = std::mem::take(&mut self.trapped);
                self.tell(&why);
                return None;
            }
            _ => {}
        }
        Some(order)
    }

    /// Tells it a line.
    pub fn tell(&mut self, line: &str) {
        let line = line.replace('\n', " ");
        // If it has ended, that is the next order.
        let _ = writeln!(self.stream, "{line}");
    }

    /// Tells it that what it waits for does not come.
    pub fn disappoint(&mut self, why: &str) {
        if self.awaits.take().is_some() {
            self.tell(&format!("end {why}"));
        }
    }
}
