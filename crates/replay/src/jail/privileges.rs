//! Privileges of the inmate: few capabilities, no new ones, and Landlock.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, LandlockStatus, PathBeneath,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::JailError;

/// Capabilities of a thread in the jail. Its threads and processes inherit them; dropped ones
/// cannot be regained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Powers {
    /// Root's capabilities concerning files: owners, modes and permissions of all files, and other
    /// users' ids. For building the image, and for programs that ran as root.
    Files,
    /// None: ordinary permission checks.
    None,
}

impl Powers {
    /// Root's capabilities that a replay needs. Left out on purpose: DAC_READ_SEARCH (opens any
    /// file of the disk by handle; DAC_OVERRIDE covers the rest of it), SETFCAP (files that would
    /// be dangerous outside), MKNOD, LINUX_IMMUTABLE (files that cannot be removed), SYS_CHROOT
    /// (paths are translated instead), SYS_ADMIN.
    fn set(self) -> CapabilitySet {
        match self {
            Powers::Files => {
                CapabilitySet::CHOWN
                    | CapabilitySet::DAC_OVERRIDE
                    | CapabilitySet::FOWNER
                    | CapabilitySet::FSETID
                    | CapabilitySet::SETUID
                    | CapabilitySet::SETGID
            }
            Powers::None => CapabilitySet::empty(),
        }
    }

    /// Reduces the calling thread's capabilities to these.
    pub fn keep(self) -> io::Result<()> {
        let had = rustix::thread::capabilities(None)?;
        let kept = had.permitted & self.set();
        let sets = CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        };
        Ok(set_capabilities(None, sets)?)
    }
}

/// Changes of the calling thread's capabilities by recorded calls. None is ever gained.
impl Powers {
    /// capset: keeps these, as far as the thread has them.
    pub fn narrow(effective: u64, permitted: u64) {
        let Ok(had) = rustix::thread::capabilities(None) else { return };
        let permitted = had.permitted & CapabilitySet::from_bits_retain(permitted);
        let effective = permitted & CapabilitySet::from_bits_retain(effective);
        let sets = CapabilitySets { effective, permitted, inheritable: CapabilitySet::empty() };
        // Reducing capabilities cannot be refused.
        let _ = set_capabilities(None, sets);
    }

    /// exec: a program keeps none, unless it is root's.
    pub fn after_exec() {
        let (real, effective) = (rustix::process::getuid(), rustix::process::geteuid());
        if !real.is_root() && !effective.is_root() {
            Powers::narrow(0, 0);
        }
    }
}

/// Permanently drops all capabilities that a replay does not need.
pub fn drop_all_but_files() -> Result<(), JailError> {
    let failed = |error| JailError::io("cannot drop capabilities", error);
    for capability in (CapabilitySet::all() & !Powers::Files.set()).iter() {
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // Unknown to this kernel, or never had by a restricted root.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(failed(error.into())),
        }
    }
    rustix::thread::clear_ambient_capability_set().map_err(|error| failed(error.into()))?;
    Powers::Files.keep().map_err(failed)?;
    rustix::thread::set_no_new_privs(true)
        .map_err(|error| JailError::io("cannot set no_new_privs", error))
}

/// The newest version whose rights are requested; older kernels enforce what they know.
const LANDLOCK: ABI = ABI::V7;

/// Refuses access to files outside the jail's root, TCP, abstract sockets outside, and signals to
/// the outside. `readable` directories may be read through a descriptor. Returns the enforced
/// version, if there is Landlock.
pub fn landlock<'a>(
    readable: impl Iterator<Item = BorrowedFd<'a>>,
) -> Result<Option<u32>, JailError> {
    let failed = |error: &dyn std::fmt::Display| {
        JailError::plain(format!("cannot enforce Landlock: {error}"))
    };
    // A replay executes no file, creates no device, and does no ioctl on one.
    let inside = AccessFs::from_all(LANDLOCK)
        & !(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    let root = std::fs::File::open("/").map_err(|error| failed(&error))?;
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    let allowed = std::iter::once(PathBeneath::new(root.as_fd(), inside))
        .chain(readable.map(|dir| PathBeneath::new(dir, reading)))
        .map(Ok::<_, RulesetError>);
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(LANDLOCK)))
        .and_then(|rules| rules.scope(Scope::from_all(LANDLOCK)))
        .and_then(|rules| rules.create())
        .and_then(|rules| rules.add_rules(allowed))
        .and_then(|rules| rules.restrict_self())
        .map_err(|error| failed(&error))?;
    Ok(match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _) => None,
        (_, LandlockStatus::Available { effective_abi, .. }) => Some(effective_abi as u32),
        _ => None,
    })
}

/// Rules for a program that is executed again: it changes no file, uses no TCP, no abstract socket and no
/// signal to the outside. With a network of its own it may use TCP. It may open files of one directory to
/// write, but make none there. `None` where the kernel has no Landlock.
pub fn rules_of_a_reader(
    has_network: bool,
    written: Option<BorrowedFd<'_>>,
) -> Result<Option<OwnedFd>, JailError> {
    let failed = |error| JailError::plain(format!("cannot make Landlock rules: {error}"));
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_write(LANDLOCK))
        .and_then(|rules| match has_network {
            true => Ok(rules),
            false => rules.handle_access(AccessNet::from_all(LANDLOCK)),
        })
        .and_then(|rules| rules.scope(Scope::from_all(LANDLOCK)))
        .and_then(|rules| rules.create())
        .and_then(|rules| {
            let written = written.map(|dir| PathBeneath::new(dir, AccessFs::WriteFile));
            rules.add_rules(written.into_iter().map(Ok::<_, RulesetError>))
        })
        .map(Into::into)
        .map_err(|error: RulesetError| failed(error))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_reader_reads_and_changes_nothing() {
        let written = tempfile::tempdir().unwrap();
        let of_it = std::fs::File::open(written.path()).unwrap();
        std::fs::write(written.path().join("file"), "as it was\n").unwrap();
        let Some(rules) = rules_of_a_reader(false, Some(of_it.as_fd())).unwrap() else { return };
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "as it was\n").unwrap();
        let script = "cd \"$1\" || exit 1; cat file; echo other > file; > new; rm file; mkdir d; ln -s a b; \
                      mv file c; true >> file; cd \"$3\" || exit 1; echo more >> file; > new; rm file; \
                      mv file c; ln -s /etc/passwd b; kill -0 \"$2\" && echo reached; exit 0";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).arg(directory.path()).arg(std::process::id().to_string());
        shell.arg(written.path());
        let rules = rules.as_raw_fd();
        // SAFETY: the child makes two system calls.
        unsafe {
            shell.pre_exec(move || {
                let held = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                    && libc::syscall(libc::SYS_landlock_restrict_self, rules, 0) == 0;
                if held { Ok(()) } else { Err(io::Error::last_os_error()) }
            });
        }
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // Older kernels know nothing of signals.
        assert!(said == "as it was\n" || said == "as it was\nreached\n", "{said}");
        let names: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        assert_eq!(std::fs::read(&file).unwrap(), b"as it was\n");
        // There it may write to what is there.
        let names: Vec<_> = std::fs::read_dir(written.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        assert_eq!(std::fs::read(written.path().join("file")).unwrap(), b"as it was\nmore\n");
    }
}
