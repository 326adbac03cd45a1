//! Bytes on their way into pipes: what fitted in the recording fits here, however it was put there.

use events::shape::Kind;

use super::value::Value;
use super::{EAGAIN, GoOn, Maker, TRANSFER_MAX};
use crate::batch::{Batch, Call};
use crate::descriptors;
use crate::memory::Span;
use crate::shared::Fill;

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

    /// What a call is to write at the file's own offset, as a vector.
    fn vector_to_write(&mut self) -> Option<Span> {
        match self.go_on {
            GoOn::Bytes { pointer, len } => {
                let bytes = self.values.memory(pointer)?;
                Some(self.vector_of(bytes.first(self.number(len))))
            }
            GoOn::Vector { pointer } => self.values.memory(pointer),
            GoOn::No | GoOn::Len(_) => None,
        }
    }

    /// Writes as much as can be written without waiting.
    fn write_at_once(&self, vector: Span) -> i64 {
        let count = vector.len() / size_of::<libc::iovec>();
        let (fd, at) = (self.number(0) as i32, vector.address() as *const libc::iovec);
        // SAFETY: the vector has so many elements, and what they point to was built by `prepare`.
        let ret = unsafe { libc::pwritev2(fd, at, count as i32, -1, libc::RWF_NOWAIT) };
        match ret {
            -1 => -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
            ret => ret as i64,
        }
    }

    /// Makes a call that may put bytes into a pipe. If they do not fit, the pipe gets more room before
    /// anybody is waited for.
    pub(super) fn once_with_room(&mut self) -> i64 {
        let writes = [libc::SYS_write, libc::SYS_writev].contains(&libc::c_long::from(self.nr));
        let Some(vector) = writes.then(|| self.vector_to_write()).flatten() else {
            return self.once();
        };
        loop {
            match self.write_at_once(vector) {
                ret @ 1.. => return ret,
                ret if ret == -EAGAIN && descriptors::make_room(self.number(0) as i32) => {}
                _ => return self.once(),
            }
        }
    }

    /// Before a call is made that puts bytes into a pipe, or takes some out, in its own way.
    pub(super) fn make_way(&mut self, call: &Call) {
        if call.name == "vmsplice" {
            self.copy_bytes(call);
        } else if call.stream {
            let args = call.args.iter().enumerate();
            let fds = args.filter(|(_, arg)| matches!(arg.kind, Kind::Fd));
            let fds: Vec<i32> = fds.map(|(at, _)| self.number(at) as i32).collect();
            // What goes from one to another one waits as soon as it does not fit.
            if let [_, _, ..] = fds[..] {
                fds.into_iter().for_each(|fd| _ = descriptors::widen(fd));
            }
        }
    }

    /// Of memory that vmsplice took the kernel keeps the pages, which others' bytes will lie in: the
    /// bytes are copied. What it took out of a pipe the trace does not tell: as many are taken out.
    fn copy_bytes(&mut self, call: &Call) {
        self.nr = libc::SYS_writev as u16;
        // SAFETY: numbers only.
        let flags = unsafe { libc::fcntl(self.number(0) as i32, libc::F_GETFL) };
        if flags & libc::O_ACCMODE == libc::O_RDONLY {
            self.nr = libc::SYS_read as u16;
            let room = self.contents.take(call.ret.clamp(0, TRANSFER_MAX as i64) as usize);
            self.values.set(1, Value::Memory(room));
            self.values.set(2, Value::Number(room.len()));
            self.go_on = GoOn::Bytes { pointer: 1, len: 2 };
        }
    }
}
