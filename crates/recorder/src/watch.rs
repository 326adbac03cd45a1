//! A thread that waits on the pidfds of processes, and reports their deaths and statuses.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use kin::pidfd::{owner, reaped_status};
use kin::status;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;

use crate::host;
use crate::mailbox::{Mailbox, Message};

/// The epoll key of the descriptor that ends the thread; process numbers are smaller.
const STOP: u64 = u64::MAX;

struct Entry {
    pid: u32,
    pidfd: OwnedFd,
}

/// The handle of the watching thread.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    epoll: OwnedFd,
    stop: OwnedFd,
    entries: Mutex<HashMap<u32, Entry>>,
    mailbox: Arc<Mailbox>,
}

impl Watch {
    /// Starts the thread.
    pub fn start(mailbox: Arc<Mailbox>) -> io::Result<Watch> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        epoll::add(&epoll, &stop, epoll::EventData::new_u64(STOP), epoll::EventFlags::IN)?;
        let shared = Arc::new(Shared { epoll, stop, entries: Mutex::default(), mailbox });
        let inner = Arc::clone(&shared);
        let thread = kin::start_thread("watch", move || inner.watch())?;
        Ok(Watch { shared, thread: Some(thread) })
    }

    /// Watches a process: its death will be reported to the mailbox.
    pub fn add(&self, process: u32, pid: u32, pidfd: OwnedFd) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        let key = epoll::EventData::new_u64(process.into());
        // The entry must exist before the event arrives.
        let mut entries = self.shared.lock();
        epoll::add(&self.shared.epoll, &pidfd, key, flags)?;
        entries.insert(process, Entry { pid, pidfd });
        Ok(())
    }

    /// Watches a process no longer: it was another one.
    pub fn forget(&self, process: u32) {
        // Its descriptor is closed, which ends its events.
        self.shared.lock().remove(&process);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Does not block: the eventfd's counter is 0.
        let _ = rustix::io::write(&self.shared.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u32, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self) {
        let mut events = Vec::with_capacity(64);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            let tsc = host::tsc();
            for event in &events {
                let key = event.data.u64();
                if key == STOP {
                    return;
                }
                let flags = event.flags;
                self.died(key as u32, tsc, flags.contains(epoll::EventFlags::HUP));
            }
        }
    }

    fn died(&self, process: u32, tsc: u64, reaped: bool) {
        let mut entries = self.lock();
        let Some(entry) = entries.get(&process) else { return };
        let status = if reaped { None } else { zombie_status(entry.pid, &entry.pidfd) };
        let status = status.or_else(|| reaped_status(&entry.pidfd));
        // More is only known when its parent has waited for it, which the pidfd shows as a hang-up.
        let hang_up = (epoll::EventData::new_u64(process.into()), epoll::EventFlags::ONESHOT);
        let more = status.is_none()
            && !reaped
            && epoll::modify(&self.epoll, &entry.pidfd, hang_up.0, hang_up.1).is_ok();
        if !more {
            entries.remove(&process);
        }
        drop(entries);
        self.mailbox.send(Message::Died { process, tsc, status, more });
    }
}

/// The wait status of a zombie.
fn zombie_status(pid: u32, pidfd: &OwnedFd) -> Option<i32> {
    let stat = status::contents(&format!("/proc/{pid}/stat")).ok()?;
    let status = status::zombie_exit_code(&stat)?;
    // Without permission the kernel shows 0 instead. The program of who is dead is not there, which
    // is said to those alone who may look.
    let program = rustix::fs::readlink(format!("/proc/{pid}/exe"), Vec::new());
    let may_look = !matches!(program, Err(Errno::ACCESS | Errno::PERM));
    // The status is that of this process if it still has its id.
    owner(pidfd, pid.cast_signed())?;
    may_look.then_some(status)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::mailbox::tests::test_mailbox;
    use crate::watched::{ProcessHandle, Watched};

    fn deaths(mailbox: &Mailbox, count: usize) -> Vec<(u32, Option<i32>)> {
        let (mut found, start) = (Vec::new(), Instant::now());
        while found.len() < count && start.elapsed() < Duration::from_secs(5) {
            for message in mailbox.take() {
                if let Message::Died { process, status, .. } = message {
                    found.push((process, status));
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        found
    }

    #[test]
    fn a_zombie_tells_its_status() {
        let mailbox = test_mailbox();
        let watch = Watch::start(Arc::clone(&mailbox)).unwrap();
        let mut exits = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        let mut killed = Command::new("sh").args(["-c", "kill -9 $$"]).spawn().unwrap();
        for (process, child) in [(1, &exits), (2, &killed)] {
            let watched = Watched::open(process, child.id());
            let ProcessHandle::Pidfd(pidfd) = watched.handle else { panic!("no pidfd") };
            watch.add(process, watched.pid, pidfd).unwrap();
        }
        let mut found = deaths(&mailbox, 2);
        found.sort_unstable();
        assert_eq!(found, [(1, Some(7 << 8)), (2, Some(9))]);
        exits.wait().unwrap();
        killed.wait().unwrap();
    }

    #[test]
    fn a_process_that_was_waited_for_is_gone() {
        let mut command = Command::new("sh");
        command.args(["-c", "read line; exit 3"]).stdin(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let child_id = child.id();
        let ProcessHandle::Pidfd(pidfd) = Watched::open(1, child.id()).handle else {
            panic!("no pidfd")
        };
        let began = || status::began(child_id.cast_signed()).unwrap();
        assert!(began().is_some());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(zombie_status(child.id(), &pidfd), None);
        // Linux 6.15 and later keep the status; older ones must not invent one.
        assert!(matches!(reaped_status(&pidfd), None | Some(0x300)));
        assert!(matches!(Watched::open(1, child.id()).handle, ProcessHandle::Gone));
        assert_eq!(began(), None);
    }
}
