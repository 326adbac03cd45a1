//! What a debugger wants of a re-execution.

use std::time::Duration;

use ring::answer;

use super::{Driver, LOOK_EVERY};
use crate::breakpoints;
use crate::debugger::Order;
use crate::divergence::{Ending, unreachable};
use crate::live::{Asked, Live};
use crate::memory::Memory;

impl Driver<'_> {
    /// A thread is about to make the call before which it is to be stopped.
    pub(super) fn stop(&mut self, asked: Asked, reply_at: u64, call: String) -> Result<(), Ending> {
        let Some(debugger) = &mut self.debugger else {
            return Err(Ending::Stopped { call, thread: self.recorded(asked.thread) });
        };
        let at = reply_at.wrapping_add(std::mem::offset_of!(ring::Reply, site) as u64);
        let memory = Memory { tid: asked.tid };
        let site = memory.word(at).map_err(|error| unreachable(self.stop_at, 0, &error))?;
        debugger.awaits = None;
        debugger.tell(&format!("at {} {} {site:#x} {call}", asked.pid, asked.tid));
        loop {
            match debugger.order(LOOK_EVERY) {
                Some(Order::Go) => {
                    self.stands = Some(asked.pid);
                    self.stop_at = None;
                    (asked.answer)(answer::TO_SITE, [0; 6], 0);
                    return Ok(());
                }
                // It could not attach to the process.
                Some(order @ Order::Goto(_)) => {
                    let thread = asked.thread;
                    self.threads.entry(thread).and_modify(|live| live.asked = Some(asked));
                    return self.obey(order);
                }
                Some(Order::When) => debugger.tell(&format!("before call {}", self.position)),
                Some(Order::Gone) => return Err(Ending::Left),
                Some(Order::Trapped) | None => {}
            }
        }
    }

    /// The debugger must let go of a process that executes another program.
    pub(super) fn trap(&mut self, asked: Asked, call: String) {
        if let Some(debugger) = &mut self.debugger {
            debugger.trapped = format!(
                "call {} executes another program: {call}. \"reenact goto\" with a later call goes there",
                self.position
            );
        }
        (asked.answer)(answer::TRAP, [0; 6], 0);
    }

    pub(super) fn is_traced(&self, pid: i32) -> bool {
        self.debugger.is_some() && breakpoints::is_traced(pid)
    }

    /// What a new task is told.
    pub(super) fn is_debugged(&self) -> [u64; 6] {
        [self.debugger.is_some().into(), 0, 0, 0, 0, 0]
    }

    /// Does what the debugger has ordered meanwhile.
    pub(super) fn take_orders(&mut self) -> Result<(), Ending> {
        while let Some(order) =
            self.debugger.as_mut().and_then(|debugger| debugger.order(Duration::ZERO))
        {
            self.obey(order)?;
        }
        Ok(())
    }

    fn obey(&mut self, order: Order) -> Result<(), Ending> {
        match order {
            Order::Goto(seq) if seq < self.position => return Err(Ending::Again { seq }),
            Order::Goto(seq) => self.stop_at = Some(seq),
            Order::Gone => return Err(Ending::Left),
            Order::When => {
                let traced = |live: &&Live| self.is_traced(live.pid);
                let live = self.threads.values().filter(traced).max_by_key(|live| live.last);
                let last = live.and_then(|live| live.last);
                let text = match (self.stands, last) {
                    (Some(_), _) => format!("before call {}", self.position),
                    (None, Some(last)) => format!("after call {last}"),
                    (None, None) => format!("call {} is the next one", self.position),
                };
                if let Some(debugger) = &mut self.debugger {
                    debugger.tell(&text);
                }
            }
            Order::Go | Order::Trapped => {}
        }
        Ok(())
    }
}
