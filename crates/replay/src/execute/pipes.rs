//! Writes to pipes: what fitted in the recording must fit here, however it is written.

use syscalls::abi::errno::{self, EAGAIN};
use syscalls::shape::ArgKind;
use syscalls::{Act, Syscall};

use super::value::Value;
use super::{GoOn, Maker};
use crate::batch::{Batch, Call};
use crate::descriptors;
use crate::memory::Span;
use crate::options::Fill;
use crate::treatment::TRANSFER_MAX;

impl Maker {
    /// Writes what a call may have written before it was cut off, as far as that does not block.
    pub fn attempt(&mut self, batch: &Batch, call: &Call, fill: &Fill) {
        self.prepare(batch, call, fill);
        if self.short {
            return;
        }
        descriptors::widen(self.number(0) as i32);
        if let Some(vector) = self.vector_to_write() {
            self.write_at_once(vector);
        }
    }

    /// Returns the data that a call writes at the file's own offset, as a vector.
    fn vector_to_write(&mut self) -> Option<Span> {
        match self.go_on {
            GoOn::Bytes { pointer, len } => {
                let bytes = self.values.memory(pointer)?;
                Some(self.vector_of(bytes.first(self.number(len))))
            }
            GoOn::Vector { pointer } => self.values.memory(pointer),
            GoOn::No | GoOn::Len(_) | GoOn::Message { .. } => None,
        }
    }

    /// Writes as much as possible without blocking.
    fn write_at_once(&self, vector: Span) -> i64 {
        let count = vector.len() / size_of::<libc::iovec>();
        let (fd, at) = (self.number(0) as i32, vector.address() as *const libc::iovec);
        // SAFETY: the vector has `count` elements, which point to memory built by `prepare`.
        let ret = unsafe { libc::pwritev2(fd, at, count as i32, -1, libc::RWF_NOWAIT) };
        match ret {
            -1 => -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
            ret => ret as i64,
        }
    }

    /// Makes a call that may write to a pipe. Enlarges a full pipe before it waits for readers.
    pub(super) fn once_with_room(&mut self) -> i64 {
        let row = syscalls::by_number(self.nr.into());
        let writes = row.is_some_and(Syscall::writes_at_own_offset);
        let Some(vector) = writes.then(|| self.vector_to_write()).flatten() else {
            return self.once();
        };
        loop {
            match self.write_at_once(vector) {
                ret @ 1.. => return ret,
                ret if errno::of_result(ret) == Some(EAGAIN)
                    && descriptors::make_room(self.number(0) as i32) => {}
                // A pipe that was opened by a name, as /dev/fd has them, does not say whether it is full.
                _ => {
                    descriptors::widen(self.number(0) as i32);
                    return self.once();
                }
            }
        }
    }

    /// Prepares a call that accesses a pipe, or a descriptor's number, in its own way.
    pub(super) fn make_way(&mut self, call: &Call) {
        if call.act == Act::GivePages {
            self.copy_bytes(call);
        } else if matches!(call.act, Act::SetCloseOnExec | Act::ClearCloseOnExec) {
            // The number of a file that is not here is held by a placeholder, of which no ioctl knows.
            let flags = if call.act == Act::SetCloseOnExec { libc::FD_CLOEXEC } else { 0 };
            self.nr = libc::SYS_fcntl as u16;
            self.values.set(1, Value::Number(libc::F_SETFD as usize));
            self.values.set(2, Value::Number(flags as usize));
        } else if call.stream {
            let args = call.args.iter().enumerate();
            let fds = args.filter(|(_, arg)| matches!(arg.kind, ArgKind::Fd));
            let fds: Vec<i32> = fds.map(|(at, _)| self.number(at) as i32).collect();
            // splice and the like block as soon as the data does not fit.
            if let [_, _, ..] = fds[..] {
                fds.into_iter().for_each(|fd| _ = descriptors::widen(fd));
            }
        }
    }

    /// Replaces vmsplice by a copy: the kernel would keep pages that are reused for other bytes.
    /// The trace does not hold what it took out of a pipe: as many bytes are read.
    fn copy_bytes(&mut self, call: &Call) {
        self.nr = libc::SYS_writev as u16;
        // SAFETY: the arguments are numbers; no memory is accessed.
        let flags = unsafe { libc::fcntl(self.number(0) as i32, libc::F_GETFL) };
        if flags & libc::O_ACCMODE == libc::O_RDONLY {
            self.nr = libc::SYS_read as u16;
            let room = self.contents.take(call.ret.clamp(0, TRANSFER_MAX) as usize);
            self.values.set(1, Value::Memory(room));
            self.values.set(2, Value::Number(room.len()));
            self.go_on = GoOn::Bytes { pointer: 1, len: 2 };
        }
    }
}
