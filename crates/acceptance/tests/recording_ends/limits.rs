//! The recorder gets less than it needs: it says so, and the program either runs or is not started.

use acceptance::place::{Place, Who};
use acceptance::program::Need;
use acceptance::shown::Info;
use acceptance::stage::Stage;
use acceptance::trials::{self, Trials};
use acceptance::{Complaint, ensure};

use crate::{attack, record};

pub fn add(trials: &mut Trials) {
    let cc = trials::missing(&["cc"]);
    trials.add_for_both("threads_that_execute_at_once", cc, execute_at_once);
    trials.add_for_both("few_descriptors", None, few_descriptors);
    for who in [Who::User, Who::Root] {
        let has = who == Who::Root || trials::has(Need::UserNamespaces, who);
        let missing = (!has).then_some("user namespaces");
        trials.add("proc_of_another_namespace", who, missing, foreign_proc);
    }
    let has = trials::has(Need::UserNamespaces, Who::User);
    let missing = (!has).then_some("user namespaces");
    trials.add("few_processes", Who::User, missing, few_processes);
}

/// One thread's exec succeeds and kills the others while they are being attached to.
fn execute_at_once(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let (name, trace) = (attack(stage, "executes")?, place.trace("executes.rnt"));
    let mut command = record(stage, &place, &["-q"], &trace, &[&name, "50", "6"]);
    let recorded = place.run(&mut command)?.success("recorded")?;
    ensure!(recorded.text() == "the end\n", "it printed {}", recorded.text());
    Info::of(stage, &trace)?.must_be_complete()
}

/// Process ids in a foreign /proc are those of other processes, whose memory must not be written.
fn foreign_proc(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = place.trace("none.rnt");
    let own: &[&str] = if who == Who::Root { &[] } else { &["--user", "--map-root-user"] };
    let run = |namespaces: &[&str]| {
        let mut command = place.command("unshare");
        command.args(own).args(namespaces).arg(&stage.reenact).arg("record");
        command.arg("--output").arg(&trace).args(["--", "echo", "runs"]);
        place.run(&mut command)
    };
    let refused = run(&["--pid", "--fork"])?;
    let said = refused.errors();
    ensure!(refused.status.code() == Some(125), "{}; it said:\n{said}", refused.status);
    ensure!(said.contains("/proc") && said.contains("--mount-proc"), "it said:\n{said}");
    ensure!(refused.text().is_empty() && !trace.exists(), "it has begun");
    // After unshare without a fork, a process cannot create threads.
    let refused = run(&["--pid"])?;
    let said = refused.errors();
    ensure!(refused.status.code() == Some(125), "{}; it said:\n{said}", refused.status);
    ensure!(said.contains("--fork"), "it said:\n{said}");
    let fine = run(&["--pid", "--fork", "--mount-proc"])?.success("with its own /proc")?;
    ensure!(fine.text() == "runs\n", "it printed {}", fine.text());
    Info::of(stage, &trace)?.must_be_complete()
}

/// With any limit of descriptors, the program runs, or reenact names what is missing.
fn few_descriptors(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let mut ran = 0;
    for limit in 5..24 {
        let trace = place.trace(&format!("{limit}.rnt"));
        let script = "/bin/true; echo runs";
        let record = format!(
            "ulimit -Sn {limit}; exec '{}' record -q -o '{}' -- sh -c '{script}'",
            stage.reenact.display(),
            trace.display()
        );
        let recorded = place.run(place.command("bash").args(["-c", &record]))?;
        let said = recorded.errors();
        match recorded.status.code() {
            Some(0) => {
                ran += 1;
                ensure!(recorded.text() == "runs\n", "{limit}: it printed {}", recorded.text());
                Info::of(stage, &trace)?;
            }
            Some(125) => {
                ensure!(said.contains("Too many open files"), "{limit}: it said:\n{said}");
                ensure!(!trace.exists(), "{limit}: a trace of nothing is left");
            }
            _ => return Err(format!("{limit}: {}; it said:\n{said}", recorded.status)),
        }
    }
    ensure!(ran > 5, "it ran {ran} times");
    Ok(())
}

/// Limits of processes and threads, which a user namespace counts separately.
fn few_processes(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let mut refused = 0;
    for limit in 1..12 {
        let trace = place.trace(&format!("{limit}.rnt"));
        let record = format!(
            "ulimit -u {limit}; exec '{}' record -q -o '{}' -- true",
            stage.reenact.display(),
            trace.display()
        );
        let mut command = place.command("unshare");
        command.args(["--user", "--map-current-user", "bash", "-c", &record]);
        let recorded = place.run(&mut command)?;
        let said = recorded.errors();
        match recorded.status.code() {
            Some(0) => Info::of(stage, &trace)?.must_be_complete()?,
            Some(125) => {
                refused += 1;
                ensure!(said.contains("ulimit -u"), "{limit}: it said:\n{said}");
                ensure!(!trace.exists(), "{limit}: a trace of nothing is left");
            }
            _ => return Err(format!("{limit}: {}; it said:\n{said}", recorded.status)),
        }
    }
    ensure!(refused > 0, "no limit was noticed");
    Ok(())
}
