//! Instances: buffers with settings of their own, made and removed as folders.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::ring;

/// Names of our instances begin with this; process id and time of start follow.
pub const PREFIX: &str = "reenact-";
/// Where tracefs may be mounted.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// An event that every kernel has.
const USUAL_EVENT: &str = "events/sched/sched_switch/id";
/// Switches events on and off, in an instance and in tracefs itself.
pub(crate) const SWITCH: &str = "tracing_on";
/// The clock of recorded calls.
const CLOCK: &str = "x86-tsc";

/// A mounted tracefs.
#[derive(Clone, Debug)]
pub struct Tracefs {
    root: PathBuf,
    is_only_read: bool,
}

impl Tracefs {
    /// Finds tracefs, and returns it if we may make instances, or may read it and get its events by perf.
    pub fn find() -> Result<Tracefs, Error> {
        let mut refused = None;
        let all = PLACES.map(|place| Tracefs { root: PathBuf::from(place), is_only_read: false });
        for tracefs in &all {
            let instances = tracefs.instances();
            match fs::read_dir(&instances) {
                Ok(_) if tracefs.takes_instances() => return Ok(tracefs.clone()),
                Ok(_) => refused = Some((instances, libc::EACCES)),
                Err(error) => {
                    if let Some(code @ (libc::EACCES | libc::EPERM)) = error.raw_os_error() {
                        refused.get_or_insert((instances, code));
                    }
                }
            }
        }
        if let Some(tracefs) = all.into_iter().find(Tracefs::has_perf) {
            return Ok(Tracefs { is_only_read: true, ..tracefs });
        }
        Err(refused.map_or(Error::NoTracefs, |(path, code)| Error::NotAllowed {
            path,
            source: io::Error::from_raw_os_error(code),
        }))
    }

    /// A tracefs at a place of its own, for tests.
    #[cfg(test)]
    pub(crate) fn at(root: &Path) -> Tracefs {
        Tracefs { root: root.to_path_buf(), is_only_read: false }
    }

    /// Returns true if no instances can be made: events come by perf.
    pub fn is_only_read(&self) -> bool {
        self.is_only_read
    }

    /// Returns true if events can be read about, and had by perf.
    fn has_perf(&self) -> bool {
        let number = fs::read_to_string(self.root.join(USUAL_EVENT));
        let number = number.ok().and_then(|text| text.trim().parse().ok());
        number.is_some_and(ring::may_be_had)
    }

    /// Returns true if we may make instances, and set what they have: the kernel gives files of an instance to
    /// the owner of the folder, whoever makes it, and others may not write to them.
    fn takes_instances(&self) -> bool {
        let instances = self.instances();
        // SAFETY: geteuid has no arguments and cannot fail.
        let is_ours = |found: fs::Metadata| found.uid() == unsafe { libc::geteuid() };
        is_writable(&instances)
            && (fs::metadata(&instances).is_ok_and(is_ours) || is_writable(&self.root.join(SWITCH)))
    }

    fn instances(&self) -> PathBuf {
        self.root.join("instances")
    }

    /// Where formats of events are described.
    pub(crate) fn events(&self) -> PathBuf {
        self.root.join("events")
    }

    /// Names of the instances of recorders that are gone.
    pub fn leftovers(&self) -> Vec<String> {
        let Ok(all) = fs::read_dir(self.instances()) else { return Vec::new() };
        let names = all.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| is_left(name)).collect();
        names.sort();
        names
    }

    /// Removes the instances of recorders that are gone, which ends their events. Returns the names
    /// of those that could be removed: the kernel keeps one that is still read, as by a recorder
    /// whose processes we do not see.
    pub fn remove_leftovers(&self) -> Vec<String> {
        let mut names = self.leftovers();
        names.retain(|name| fs::remove_dir(self.instances().join(name)).is_ok());
        names
    }

    /// Makes an instance of this process; `part` tells several apart.
    pub(crate) fn instance(&self, part: &str) -> Result<Instance, Error> {
        let pid = std::process::id();
        let name = format!("{PREFIX}{pid}-{}{part}", started(pid).unwrap_or(0));
        let path = self.instances().join(name);
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(Error::of(&path, error))
            }
            _ => Ok(Instance { path }),
        }
    }
}

fn is_writable(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: the path is a string that ends with a NUL and lives as long as the call.
    unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK, libc::AT_EACCESS) == 0 }
}

/// Returns true if an instance is one of ours, and its recorder is gone.
fn is_left(name: &str) -> bool {
    let Some((pid, start)) = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-')) else {
        return false;
    };
    let start = start.split_once('-').map_or(start, |(start, _)| start);
    let (Ok(pid), Ok(start)) = (pid.parse::<u32>(), start.parse::<u64>()) else { return false };
    started(pid) != Some(start)
}

/// When a process was started, in ticks since the machine was; `None` if there is none.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may have blanks; the 20th word behind it is the time.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Returns true if the kernel's numbers of processes are those that we see: if we are in its first
/// PID namespace.
pub fn names_processes_as_we_do() -> bool {
    // The inode number that the kernel gives to its first PID namespace.
    const FIRST: &str = "pid:[4026531836]";
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == FIRST)
}

/// An instance of our own, removed when dropped.
#[derive(Debug)]
pub(crate) struct Instance {
    path: PathBuf,
}

impl Instance {
    /// Writes a setting.
    pub fn set(&self, file: &str, value: &str) -> Result<(), Error> {
        let path = self.path.join(file);
        write(&path, value, false).map_err(|source| Error::of(&path, source))
    }

    /// Adds to a setting.
    pub fn add(&self, file: &str, value: &str) -> Result<(), Error> {
        let path = self.path.join(file);
        write(&path, value, true).map_err(|source| Error::of(&path, source))
    }

    /// The file of a setting.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Has time stamps taken from the counter that recorded calls are timed by.
    pub fn use_time_stamp_counter(&self) -> Result<(), Error> {
        let path = self.path.join("trace_clock");
        write(&path, CLOCK, false).map_err(|source| Error::NoClock { source })
    }

    /// Bytes of a page of its buffers.
    pub fn page_bytes(&self) -> usize {
        const USUAL: usize = 4096;
        const MAX: usize = 1 << 20;
        let kilobytes = fs::read_to_string(self.path.join("buffer_subbuf_size_kb"));
        let kilobytes = kilobytes.ok().and_then(|text| text.trim().parse::<usize>().ok());
        kilobytes.map_or(USUAL, |kilobytes| kilobytes.saturating_mul(1024).clamp(USUAL, MAX))
    }

    /// The folders of its CPUs.
    pub fn cpus(&self) -> Result<Vec<(u32, PathBuf)>, Error> {
        let folder = self.path.join("per_cpu");
        let all = fs::read_dir(&folder).map_err(|source| Error::of(&folder, source))?;
        let mut cpus: Vec<(u32, PathBuf)> = all
            .flatten()
            .filter_map(|entry| {
                let number = entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok()?;
                Some((number, entry.path()))
            })
            .collect();
        cpus.sort();
        Ok(cpus)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Fails only while its buffers are open: the next start removes it then.
        let _ = fs::remove_dir(&self.path);
    }
}

pub(crate) fn write(path: &Path, value: &str, append: bool) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).truncate(!append).append(append);
    options.open(path)?.write_all(value.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_instances_of_processes_that_are_gone_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let tracefs = Tracefs::at(folder.path());
        let own = std::process::id();
        let start = started(own).unwrap();
        let of_another_start = format!("{PREFIX}{own}-{}", start + 1);
        let living = format!("{PREFIX}{own}-{start}");
        let living_too = format!("{living}-own");
        let names =
            ["foo", "reenact-x-1", "reenact-4194305-7", &of_another_start, &living, &living_too];
        for name in names {
            fs::create_dir_all(tracefs.instances().join(name)).unwrap();
        }
        // One that is still in use, as the kernel would say it.
        fs::create_dir_all(tracefs.instances().join("reenact-4194306-7/used")).unwrap();
        let mut expected = vec![of_another_start.clone(), "reenact-4194305-7".into()];
        expected.sort();
        assert_eq!(tracefs.leftovers().len(), 3);
        assert_eq!(tracefs.remove_leftovers(), expected);
        assert_eq!(tracefs.leftovers(), ["reenact-4194306-7"]);
        assert!(tracefs.instances().join("foo").exists());
        assert!(tracefs.instances().join(living).exists());
    }
}
