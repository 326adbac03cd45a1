//! Runs and measures a command.

use std::fs::{self, File};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::Complaint;

/// A measured run of a command.
pub struct Measured {
    /// Duration in seconds.
    pub wall_s: f64,
    /// User and system time of the command and all its descendants.
    pub cpu_s: f64,
    /// The part of it that is user time.
    pub user_s: f64,
    /// Peak memory of the command.
    pub peak_bytes: u64,
    /// Standard output.
    pub stdout: String,
    /// The run exceeded its limit and was killed.
    pub cut: bool,
}

/// The figures of a run that are compared.
#[derive(Clone, Copy)]
pub struct Sample {
    /// The compared cost: seconds, or seconds per unit of work.
    pub cost: f64,
    /// User time of the command and all its descendants.
    pub user_s: f64,
    /// System time.
    pub system_s: f64,
}

impl Sample {
    /// User and system time.
    pub fn cpu_s(&self) -> f64 {
        self.user_s + self.system_s
    }
}

impl Measured {
    /// The figures that are compared, with this cost.
    pub fn sample(&self, cost: f64) -> Sample {
        Sample { cost, user_s: self.user_s, system_s: self.cpu_s - self.user_s }
    }
}

/// Returns the median of each figure.
pub fn median(samples: &[Sample]) -> Sample {
    let middle = |figure: fn(&Sample) -> f64| middle(samples.iter().map(figure).collect());
    Sample {
        cost: middle(|s| s.cost),
        user_s: middle(|s| s.user_s),
        system_s: middle(|s| s.system_s),
    }
}

/// Returns the median.
pub fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let half = figures.len() / 2;
    if figures.len() % 2 == 1 { figures[half] } else { (figures[half - 1] + figures[half]) / 2.0 }
}

/// Runs a command in a directory, as another user if one is given, and kills it after `limit`.
pub fn run(
    words: &[String],
    dir: &Path,
    user: Option<&str>,
    output: &Path,
    limit: Option<Duration>,
) -> Result<Measured, Complaint> {
    let said = output.with_extension("stderr");
    let create =
        |path: &Path| File::create(path).map_err(|error| format!("{}: {error}", path.display()));
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir(dir).stdin(Stdio::null()).process_group(0);
    command.stdout(create(output)?).stderr(create(&said)?);
    if let Some(name) = user {
        let (uid, gid) = ids(name)?;
        command.uid(uid).gid(gid);
    }
    let begun = Instant::now();
    let child = command.spawn().map_err(|error| format!("cannot run {}: {error}", words[0]))?;
    let cut = match limit {
        Some(limit) => !ends_within(&child, limit)?,
        None => false,
    };
    if cut {
        // SAFETY: kill takes plain numbers. The child leads this group and is not reaped yet, so
        // that its id cannot have been reused.
        unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    }
    let mut status = 0;
    // SAFETY: rusage consists of integers, for which zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for writes. The child is ours, and only this call reaps it.
    let got = unsafe { libc::wait4(child.id() as i32, &mut status, 0, &mut usage) };
    let wall_s = begun.elapsed().as_secs_f64();
    if got != child.id() as i32 {
        return Err(format!("wait4: {}", std::io::Error::last_os_error()));
    }
    let status = ExitStatus::from_raw(status);
    if !status.success() && !cut {
        let said = fs::read_to_string(&said).unwrap_or_default();
        return Err(format!("{}: {status}; it said:\n{said}", words.join(" ")));
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok(Measured {
        wall_s,
        cpu_s: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        user_s: seconds(usage.ru_utime),
        peak_bytes: usage.ru_maxrss.unsigned_abs() * 1024,
        stdout: fs::read_to_string(output).map_err(|error| error.to_string())?,
        cut,
    })
}

/// Returns whether a child ends within the limit.
fn ends_within(child: &Child, limit: Duration) -> Result<bool, Complaint> {
    let failed = |what| format!("{what}: {}", std::io::Error::last_os_error());
    // SAFETY: pidfd_open takes plain numbers and touches no memory of ours.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) } as i32;
    if fd < 0 {
        return Err(failed("pidfd_open"));
    }
    // SAFETY: the kernel just returned this descriptor, so nothing else owns it.
    let _owned = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut ended = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: `ended` is one valid pollfd, as the count says.
    match unsafe { libc::poll(&mut ended, 1, limit.as_millis() as i32) } {
        -1 => Err(failed("poll")),
        count => Ok(count == 1),
    }
}

/// Returns user and group id of an account.
pub fn ids(name: &str) -> Result<(u32, u32), Complaint> {
    let accounts = fs::read_to_string("/etc/passwd").map_err(|error| error.to_string())?;
    accounts
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields[0] == name)
        .and_then(|fields| Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?)))
        .ok_or_else(|| format!("there is no user {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_cut_with_its_children() {
        let place = tempfile::tempdir().unwrap();
        let output = place.path().join("output");
        let shell = |script: &str, limit| {
            let words = ["sh", "-c", script].map(String::from);
            run(&words, place.path(), None, &output, Some(limit)).unwrap()
        };
        let quick = shell("echo done", Duration::from_secs(600));
        assert!(!quick.cut && quick.stdout == "done\n");
        let slow = shell("echo begun; sleep 1000 & sleep 1000", Duration::from_millis(200));
        assert!(slow.cut && slow.wall_s < 600.0);
    }

    #[test]
    fn medians_of_odd_and_even_numbers() {
        let samples = |costs: &[f64]| -> Vec<Sample> {
            costs.iter().map(|&cost| Sample { cost, user_s: cost, system_s: cost }).collect()
        };
        assert_eq!(median(&samples(&[3.0, 1.0, 2.0])).cost, 2.0);
        assert_eq!(median(&samples(&[4.0, 1.0, 2.0, 3.0])).cpu_s(), 5.0);
    }
}
