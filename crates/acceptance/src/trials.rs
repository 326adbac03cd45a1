//! Turns checks into named tests.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};

use crate::Complaint;
use crate::place::{Who, are_root};
use crate::program::Need;
use crate::stage::{Stage, repository};

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

/// The trials of one test binary.
pub struct Trials {
    stage: Arc<Stage>,
    list: Vec<Trial>,
    slow: Arc<Mutex<Vec<(Duration, String)>>>,
}

impl Trials {
    /// Makes an empty list.
    pub fn new(stage: Stage) -> Trials {
        Trials { stage: Arc::new(stage), list: Vec::new(), slow: Arc::default() }
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

    /// Adds a trial for an ordinary user and one for root.
    pub fn add_for_both(
        &mut self,
        name: &str,
        missing: Option<&str>,
        check: impl FnOnce(&Stage, Who) -> Result<(), Complaint> + Clone + Send + 'static,
    ) {
        self.add(name, Who::User, missing, check.clone());
        self.add(name, Who::Root, missing, check);
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
        let mut trials = Trials::new(stage);
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
