//! What recording and reading take at high rates, and what chains of callers cost.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::super::measure::{self, Measured};
use crate::{Complaint, repository};

/// Switches a second on each CPU at which nothing may be lost.
const SWITCHES: u32 = 200_000;
/// Events that `stat cpu` reads in a second on one CPU, and its memory on a long trace as a multiple of that
/// on a short one.
const READ_MIN: f64 = 3e6;
const GROWTH_MAX: f64 = 1.25;
/// Calls that are made below so many functions.
const DEPTH: &str = "12";
const CALLS: &str = "300000";
const STACK_RUNS: usize = 5;

/// Runs all of it with this binary; returns the marks that were missed.
pub fn run(reenact: &Path, dir: &Path, seconds: u32) -> Result<Vec<String>, Complaint> {
    let program = dir.join("switches");
    let source = repository().join("benches/switches.c");
    let built = Command::new("gcc").args(["-O2", "-o"]).arg(&program).arg(source).status();
    if !built.is_ok_and(|built| built.success()) {
        return Err("benches/switches.c cannot be compiled".into());
    }
    let rates = Rates { reenact, dir, program: &program };
    let mut missed = rates.switches(seconds)?;
    missed.extend(rates.reading(seconds)?);
    rates.callers()?;
    Ok(missed)
}

struct Rates<'a> {
    reenact: &'a Path,
    dir: &'a Path,
    program: &'a Path,
}

impl Rates<'_> {
    /// Records the machine while its CPUs switch.
    fn switches(&self, seconds: u32) -> Result<Vec<String>, Complaint> {
        println!("\nswitches on each CPU, {seconds} s, usual buffers");
        println!(
            "{:<14} {:>12} {:>12} {:>12} {:>8} {:>8}",
            "", "switches/s", "events/s", "MB", "bytes", "lost"
        );
        let mut missed = Vec::new();
        for (name, rate) in [("200,000/s", SWITCHES), ("at most", 0)] {
            let (rate, length) = (rate.to_string(), (seconds + 2).to_string());
            let mut program = Command::new(self.program);
            program.args(["yield", &rate, &length]).stdout(Stdio::piped());
            let program = program.spawn().map_err(|error| error.to_string())?;
            thread::sleep(Duration::from_secs(1));
            let trace = self.dir.join(format!("switches-{rate}.rnt"));
            self.record(&trace, seconds)?;
            let said = program.wait_with_output().map_err(|error| error.to_string())?;
            if !said.status.success() {
                return Err(format!("switches: {}", said.status));
            }
            let found = self.asked(&["stat", "events", "--json"], &trace)?;
            let found: serde_json::Value =
                serde_json::from_str(&found.stdout).map_err(|error| error.to_string())?;
            let (events, lost) = (&found["event_count"], found["event_lost"].as_u64());
            let of_switch = found["events"].as_array().into_iter().flatten();
            let mut of_switch = of_switch.filter(|event| event["event"] == "sched:sched_switch");
            let switches = of_switch.next().and_then(|event| event["count"].as_f64());
            let events = events.as_f64().unwrap_or(0.0);
            let bytes = fs::metadata(&trace).map_or(0.0, |found| found.len() as f64);
            println!(
                "{name:<14} {:>12.0} {:>12.0} {:>12.2} {:>8.2} {:>8}",
                switches.unwrap_or(0.0) / f64::from(seconds),
                events / f64::from(seconds),
                bytes / 1e6,
                bytes / events.max(1.0),
                lost.unwrap_or(0),
            );
            if rate != "0" && lost != Some(0) {
                missed.push(format!("{lost:?} events lost at {name} on each CPU"));
            }
        }
        Ok(missed)
    }

    /// Reads a trace, and a shorter one beside it.
    fn reading(&self, seconds: u32) -> Result<Vec<String>, Complaint> {
        let long = self.dir.join(format!("switches-{SWITCHES}.rnt"));
        let short = self.dir.join("short.rnt");
        let (until, place) = (format!("{}s", (seconds / 4).max(1)), short.display().to_string());
        self.asked(&["cut", "--force", "--until", &until, "-o", &place], &long)?;
        println!("\nstat cpu");
        println!("{:<14} {:>12} {:>10} {:>16} {:>10}", "", "events", "CPU s", "events/CPU s", "MB");
        let (mut missed, mut peaks) = (Vec::new(), Vec::new());
        for (name, trace) in [("short", &short), ("long", &long)] {
            let counted = self.asked(&["stat", "events", "--json"], trace)?;
            let counted: serde_json::Value =
                serde_json::from_str(&counted.stdout).map_err(|error| error.to_string())?;
            let events = counted["event_count"].as_f64().unwrap_or(0.0);
            let runs: Vec<Measured> = (0..STACK_RUNS)
                .map(|_| self.asked(&["stat", "cpu", "--json"], trace))
                .collect::<Result<_, _>>()?;
            let cpu_s = measure::middle(runs.iter().map(|run| run.cpu_s).collect());
            let peak = measure::middle(runs.iter().map(|run| run.peak_bytes as f64).collect());
            peaks.push(peak);
            let rate = events / cpu_s;
            println!("{name:<14} {events:>12} {cpu_s:>10.3} {rate:>16.0} {:>10.1}", peak / 1e6);
            if name == "long" && rate < READ_MIN {
                missed.push(format!("stat cpu reads {rate:.0} events a CPU second"));
            }
        }
        if peaks[1] > GROWTH_MAX * peaks[0] {
            missed.push(format!("stat cpu takes {:.1} MB of a long trace", peaks[1] / 1e6));
        }
        Ok(missed)
    }

    /// What chains of callers cost a call.
    fn callers(&self) -> Result<(), Complaint> {
        println!(
            "\ncallers of {CALLS} calls below {DEPTH} functions; ns for each, of {STACK_RUNS} runs"
        );
        let ways: [(&str, Option<&[&str]>); 5] = [
            ("alone", None),
            ("record", Some(&[])),
            ("--site-depth 2", Some(&["--site-depth", "2"])),
            ("--stack=4", Some(&["--stack=4"])),
            ("--stack", Some(&["--stack"])),
        ];
        let mut times = vec![Vec::new(); ways.len()];
        for _ in 0..STACK_RUNS {
            for ((_, options), times) in ways.iter().zip(&mut times) {
                let mut words = Vec::new();
                if let Some(options) = options {
                    words.push(self.reenact.display().to_string());
                    words.extend(
                        ["record", "--quiet", "--force", "-o", "deep.rnt"].map(String::from),
                    );
                    words.extend(options.iter().map(|option| option.to_string()));
                    words.push("--".into());
                }
                words.push(self.program.display().to_string());
                words.extend(["deep", DEPTH, CALLS].map(String::from));
                let ran = measure::run(&words, self.dir, None, &self.dir.join("said"), None)?;
                times.push(ran.stdout.trim().parse().map_err(|_| "switches said no time")?);
            }
        }
        for ((name, _), times) in ways.iter().zip(times) {
            println!("{name:<14} {:>12.1}", measure::middle(times));
        }
        Ok(())
    }

    fn record(&self, trace: &Path, seconds: u32) -> Result<(), Complaint> {
        let mut command = Command::new(self.reenact);
        command.args(["record", "--quiet", "--force", "--kernel", "--duration"]);
        let ended = command.arg(format!("{seconds}s")).arg("--output").arg(trace).status();
        let ended = ended.map_err(|error| error.to_string())?;
        if ended.success() { Ok(()) } else { Err(format!("record: {ended}")) }
    }

    fn asked(&self, words: &[&str], trace: &Path) -> Result<Measured, Complaint> {
        let mut all = vec![self.reenact.display().to_string()];
        all.extend(words.iter().map(|word| word.to_string()));
        all.push(trace.display().to_string());
        measure::run(&all, self.dir, None, &self.dir.join("said"), None)
    }
}
