//! Turns checks into named tests.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use xxhash_rust::xxh3::xxh3_64;

use crate::place::{Who, are_root};
use crate::program::{Need, Program};
use crate::stage::{Stage, repository};
use crate::{Complaint, tier};

/// Returns whether this machine has what a program needs, for this user.
pub fn has(need: Need, who: Who) -> bool {
    match need {
        Need::Root => who == Who::Root,
        Need::User => who == Who::User,
        Need::UserNamespaces => succeeds("unshare", &["--user", "--map-root-user", "true"]),
        Need::Xattrs => true,
        Need::Go => succeeds("go", &["version"]),
    }
}

/// Returns whether a command exists and exits with 0.
pub fn succeeds(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// How many of the slowest trials are named, and from which time on a trial is slow.
const SLOWEST: usize = 5;
const SLOW: Duration = Duration::from_secs(5);

/// What the trials need that only the soak runs.
const LONG_TIER: &str = "the long tier";

/// As whom the short tier runs a trial that can be run as both.
fn turn(name: &str) -> Who {
    if xxh3_64(name.as_bytes()) & 1 == 0 { Who::User } else { Who::Root }
}

/// The trials of one test binary.
pub struct Trials {
    stage: Arc<Stage>,
    /// As both users: in the long tier, where some are asked for by name, and where nobody can be root.
    all_are_run: bool,
    list: Vec<Trial>,
    slow: Arc<Mutex<Vec<(Duration, String)>>>,
}

impl Trials {
    /// Makes an empty list.
    fn new(stage: Stage, arguments: &Arguments) -> Trials {
        let all_are_run = tier::is_long() || arguments.filter.is_some() || !are_root();
        Trials { stage: Arc::new(stage), all_are_run, list: Vec::new(), slow: Arc::default() }
    }

    /// Returns the stage that the trials run on.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// Adds a trial for one user. `missing` names what this machine lacks for it, if anything.
    pub fn add(
        &mut self,
        name: &str,
        who: Who,
        missing: Option<&str>,
        check: impl FnOnce(&Stage, Who) -> Result<(), Complaint> + Send + 'static,
    ) {
        let (stage, slow) = (Arc::clone(&self.stage), Arc::clone(&self.slow));
        let name = format!("{}/{name}", who.name());
        let of = name.clone();
        let run = move || {
            let begun = Instant::now();
            let outcome = check(&stage, who).map_err(Failed::from);
            let took = begun.elapsed();
            if took >= SLOW {
                slow.lock().unwrap_or_else(PoisonError::into_inner).push((took, of));
            }
            outcome
        };
        let mut trial = Trial::test(name, run);
        let no_root = who == Who::Root && !are_root();
        if let Some(reason) = missing.or(no_root.then_some("root")) {
            trial = trial.with_kind(format!("needs {reason}")).with_ignored_flag(true);
        }
        self.list.push(trial);
    }

    /// Adds a trial for an ordinary user and one for root. The short tier runs about half of them as
    /// the one, and half as the other.
    pub fn add_for_both(
        &mut self,
        name: &str,
        missing: Option<&str>,
        check: impl FnOnce(&Stage, Who) -> Result<(), Complaint> + Clone + Send + 'static,
    ) {
        for who in [Who::User, Who::Root] {
            let turn = (turn(name) != who && !self.all_are_run).then_some(LONG_TIER);
            self.add(name, who, missing.or(turn), check.clone());
        }
    }

    /// Adds a trial of a program for both users, or for the one who can run it.
    pub fn add_for_program(
        &mut self,
        name: &str,
        program: &Program,
        missing: Option<&str>,
        check: impl FnOnce(&Stage, Who) -> Result<(), Complaint> + Clone + Send + 'static,
    ) {
        let lacking = |who| program.needs.iter().find(|need| !has(**need, who));
        match (lacking(Who::User), lacking(Who::Root)) {
            (None, None) => self.add_for_both(name, missing, check),
            (user, root) => {
                for (who, need) in [(Who::User, user), (Who::Root, root)] {
                    let need = need.map(|need| format!("{need:?}"));
                    self.add(name, who, need.as_deref().or(missing), check.clone());
                }
            }
        }
    }
}

/// The main function of a test binary: `fill` adds the trials.
pub fn main(fill: impl FnOnce(&mut Trials) -> Result<(), Complaint>) -> ExitCode {
    let arguments = Arguments::from_args();
    // A shell that starts the tests in the background ignores these, and programs inherit that.
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: the default action involves no handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let ready = Stage::new().and_then(|stage| {
        let mut trials = Trials::new(stage, &arguments);
        fill(&mut trials)?;
        Ok(trials)
    });
    match ready {
        Ok(trials) => {
            let conclusion = libtest_mimic::run(&arguments, trials.list);
            let mut slow = trials.slow.lock().unwrap_or_else(PoisonError::into_inner);
            slow.sort_by(|a, b| b.cmp(a));
            for (took, name) in slow.iter().take(SLOWEST) {
                println!("slow: {:5.1} s  {name}", took.as_secs_f64());
            }
            drop(slow);
            drop(trials.stage);
            conclusion.exit_code()
        }
        Err(complaint) => {
            eprintln!("the tests cannot be run: {complaint}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the first of these programs that is not installed.
pub fn missing<'a>(programs: &[&'a str]) -> Option<&'a str> {
    programs.iter().copied().find(|program| {
        !["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin"]
            .iter()
            .any(|folder| Path::new(folder).join(program).exists())
    })
}

/// Returns the path of a Python with modules that read Parquet; `cargo xtask test` makes it.
pub fn python() -> PathBuf {
    match std::env::var_os("REENACT_PYTHON") {
        Some(python) => python.into(),
        None => repository().join("target/python/bin/python3"),
    }
}

/// Returns whether a Python has these modules.
pub fn imports(python: &Path, modules: &[&str]) -> bool {
    let find = format!(
        "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, {modules:?})))"
    );
    succeeds(&python.to_string_lossy(), &["-c", &find])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_users_have_their_turn() {
        let names: Vec<String> = (0..1000).map(|n| format!("program_{n}")).collect();
        let as_user = names.iter().filter(|name| turn(name) == Who::User).count();
        assert!((400..600).contains(&as_user), "{as_user}");
    }
}
