//! Removes the arenas of processes that are left alone because another program of the recording
//! traces them: a later change of their user would go unnoticed.
//!
//! One of their threads is interrupted and made to map private memory over the arena; no other
//! process could do that. It may be in any call, which then continues as after a stop.

use std::io;
use std::mem::offset_of;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kin::Mapped;
use kin::maps::{self, Mapping, Which};
use ring::{Control, answer, slot_state};

use crate::ptrace::{self, Stop};
use crate::request::{Request, reply_to};
use crate::state::Supervisor;
use crate::tracee::is_dead;

/// How long a thread may take to stop: it may be in a call that cannot be interrupted.
const STOP_WAIT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_micros(50);

/// A removal, done on another thread because the kernel or a program may block it.
struct Taking {
    tid: i32,
    process: i32,
    arenas: Vec<Mapped>,
    /// The agent's image, and the offset of a `syscall` instruction in it.
    images: Vec<Mapped>,
    call: u64,
}

impl Supervisor {
    /// Handles a request of a thread that will trace another one, which must lose its arena first.
    pub(crate) fn left_alone(&mut self, request: Request) {
        let slot = self.slot(request.index);
        let Some(taking) = self.taking(request.index) else {
            return self.reply(request, answer::REFUSED);
        };
        let work = move || {
            // The kernel detaches when this thread ends, however far it came: the program attaches
            // now.
            let tracer = kin::start_thread("release", move || taking.carry_out().is_ok());
            let done = tracer.is_ok_and(|tracer| tracer.join().unwrap_or(false));
            if slot.state.load(Ordering::Acquire) == slot_state::ACTIVE {
                reply_to(slot, request, if done { answer::DONE } else { answer::REFUSED });
            }
        };
        let patience = &self.domains.get(request.index / ring::SLOTS).patience;
        if patience.begin(work, || ()).is_none() {
            self.reply(request, answer::REFUSED);
        }
    }

    /// `None` unless the named thread belongs to the slot's users.
    fn taking(&mut self, index: usize) -> Option<Taking> {
        let slot = self.slot(index);
        let named = slot.request_args[0].load(Ordering::Relaxed) as u32;
        let tid = self.global_tid(slot, named)?;
        let identity = self.kin.identify(tid)?;
        if !self.speaks_through(index, &identity) {
            return None;
        }
        let segment = Mapped { name: "/SYSV", inode: self.published.image.id as u64 };
        let sent = self.sendable.as_ref().and_then(|sendable| sendable.mapped());
        Some(Taking {
            tid,
            process: identity.process,
            arenas: self.domains.iter().map(|domain| domain.mapped()).collect(),
            images: std::iter::once(segment).chain(sent).collect(),
            call: self.image.call,
        })
    }
}

impl Taking {
    fn find(&self, which: Which, wanted: &[Mapped]) -> io::Result<Vec<Mapping>> {
        let mut found = Vec::new();
        maps::each(self.process, which, |mapping| {
            let is_it = |wanted: &Mapped| {
                mapping.ino == wanted.inode && mapping.path.starts_with(wanted.name.as_bytes())
            };
            if wanted.iter().any(is_it) {
                found.push(mapping);
            }
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    fn carry_out(&self) -> io::Result<()> {
        let arenas = self.find(Which::SharedAndWritable, &self.arenas)?;
        if arenas.is_empty() {
            return Ok(());
        }
        let images = self.find(Which::Text, &self.images)?;
        let holds = |image: &&Mapping| image.offset == 0 && image.end - image.start > self.call;
        let image = images.iter().find(holds).ok_or(io::ErrorKind::NotFound)?;
        let at = image.start + self.call;
        ptrace::seize(self.tid)?;
        ptrace::interrupt(self.tid)?;
        self.wait_for(Stop::Between, Some(Instant::now() + STOP_WAIT))?;
        let (registers, mask) = (ptrace::registers(self.tid)?, ptrace::blocked_signals(self.tid)?);
        ptrace::block_signals(self.tid, u64::MAX)?;
        let replaced = arenas.iter().try_for_each(|arena| self.replace(arena, at, &registers));
        // Only from an interrupt stop does the kernel restart a call that was interrupted.
        ptrace::interrupt(self.tid)?;
        ptrace::resume(self.tid, 0)?;
        self.wait_for(Stop::Between, None)?;
        ptrace::set_registers(self.tid, &registers)?;
        ptrace::block_signals(self.tid, mask)?;
        ptrace::detach(self.tid, 0)?;
        replaced
    }

    /// Makes the thread map private memory over an arena, with recording stopped in it.
    fn replace(
        &self,
        arena: &Mapping,
        at: u64,
        registers: &libc::user_regs_struct,
    ) -> io::Result<()> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let call = libc::user_regs_struct {
            rip: at,
            rax: libc::SYS_mmap as u64,
            // Keeps the kernel from restarting the interrupted call here.
            orig_rax: u64::MAX,
            rdi: arena.start,
            rsi: arena.end - arena.start,
            rdx: (libc::PROT_READ | libc::PROT_WRITE) as u64,
            r10: flags as u64,
            r8: u64::MAX,
            r9: 0,
            ..*registers
        };
        ptrace::set_registers(self.tid, &call)?;
        for _ in ["begin", "end"] {
            ptrace::to_next_call(self.tid, 0)?;
            self.wait_for(Stop::Call, None)?;
        }
        if ptrace::registers(self.tid)?.rax != arena.start {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.stop_recording_in(arena.start);
        Ok(())
    }

    /// Stops recording in the memory that replaces the arena: other threads may still write there.
    fn stop_recording_in(&self, arena: u64) {
        // Any nonzero reason will do.
        let mut why = 1u32;
        let at = arena + offset_of!(Control, stopped) as u64;
        let from = libc::iovec { iov_base: (&raw mut why).cast(), iov_len: size_of_val(&why) };
        let to = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: size_of_val(&why) };
        // SAFETY: the kernel reads a local word; the target is memory of the other process.
        unsafe { libc::process_vm_writev(self.process, &raw const from, 1, &raw const to, 1, 0) };
    }

    /// Waits for a stop of this kind; signals are passed on to the thread.
    fn wait_for(&self, wanted: Stop, until: Option<Instant>) -> io::Result<()> {
        loop {
            match ptrace::stop_of(self.tid) {
                Some(stop) if stop == wanted => return Ok(()),
                Some(Stop::Signal(signal)) => ptrace::resume(self.tid, signal)?,
                Some(_) => return Err(io::ErrorKind::Interrupted.into()),
                None if is_dead(self.tid) => return Err(io::ErrorKind::NotFound.into()),
                None if until.is_some_and(|until| Instant::now() > until) => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                None => std::thread::sleep(PAUSE),
            }
        }
    }
}
