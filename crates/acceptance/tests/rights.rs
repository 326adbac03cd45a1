//! Programs that gain rights on exec keep them. They cannot be followed then: the trace says so.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, ExitCode};

use acceptance::place::{Place, Who, are_root};
use acceptance::shown::Info;
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, trials};

type Raise = fn(&str) -> Result<(), Complaint>;

/// Ways to execute the copy of grep that has the rights.
const WAYS: &[(&str, &str)] = &[
    ("by_path", "./raised -E '^(Uid|Gid|Cap)' /proc/self/status; :"),
    ("by_search", "PATH=$PWD raised -E '^(Uid|Gid|Cap)' /proc/self/status; :"),
    (
        "by_descriptor",
        "python3 -c \"import os; f = os.open('raised', os.O_RDONLY); \
         os.execve(f, ['raised', '-E', '^(Uid|Gid|Cap)', '/proc/self/status'], {})\"; :",
    ),
];

fn main() -> ExitCode {
    trials::main(|trials| {
        let no_root = (!are_root()).then_some("root");
        let missing = no_root.or_else(|| trials::missing(&["setcap", "python3"]));
        let kinds: [(&str, Raise); 3] =
            [("capabilities", capabilities), ("setuid", setuid), ("setgid", setgid)];
        for (kind, raise) in kinds {
            for (way, script) in WAYS {
                trials.add(&format!("{kind}/{way}"), Who::User, missing, move |stage, who| {
                    rights_are_kept(stage, who, raise, script)
                });
            }
            let name = format!("{kind}/not_executed");
            trials.add(&name, Who::User, missing, move |stage, who| {
                failing_execs_are_no_gaps(stage, who, raise)
            });
            let name = format!("{kind}/lost_by_the_first_program");
            trials.add(&name, Who::User, missing, move |stage, who| {
                lost_rights_are_told(stage, who, raise)
            });
        }
        Ok(())
    })
}

fn capabilities(path: &str) -> Result<(), Complaint> {
    let status = Command::new("setcap").args(["cap_net_bind_service,cap_chown=ep", path]).status();
    ensure!(status.is_ok_and(|status| status.success()), "setcap failed");
    Ok(())
}

fn setuid(path: &str) -> Result<(), Complaint> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o4755)).map_err(|e| e.to_string())
}

fn setgid(path: &str) -> Result<(), Complaint> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o2755)).map_err(|e| e.to_string())
}

fn rights_are_kept(stage: &Stage, who: Who, raise: Raise, script: &str) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let raised = place.work().join("raised");
    fs::copy("/bin/grep", &raised).map_err(|error| error.to_string())?;
    let plain = place.run(place.command("sh").args(["-c", script]))?.success("without rights")?;
    raise(&raised.display().to_string())?;
    let alone = place.run(place.command("sh").args(["-c", script]))?.success("alone")?;
    ensure!(plain.text() != alone.text(), "no rights were gained:\n{}", alone.text());
    let trace = place.trace("rights.rnt");
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--output"]).arg(&trace).args(["--", "sh", "-c", script]);
    let recorded = place.run(&mut record)?.success("recorded")?;
    ensure!(
        alone.text() == recorded.text(),
        "alone:\n{}\nrecorded:\n{}",
        alone.text(),
        recorded.text()
    );
    let said = recorded.errors();
    ensure!(said.contains("not complete: 1 gap: "), "the summary does not tell the gap:\n{said}");
    let info = Info::of(stage, &trace)?;
    info.must_be_complete_but_for(stage, &trace, &["not-followed".into()])?;
    ensure!(info.gaps == 1, "{} gaps", info.gaps);
    Ok(())
}

/// PROGRAM itself is traced from its start and so loses the rights of its file: a warning says so.
fn lost_rights_are_told(stage: &Stage, who: Who, raise: Raise) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let raised = place.work().join("raised");
    fs::copy("/bin/grep", &raised).map_err(|error| error.to_string())?;
    let status = ["-E", "^(Uid|Gid|Cap)", "/proc/self/status"];
    let plain = place.run(place.command(&raised).args(status))?.success("without rights")?;
    let trace = place.trace("lost.rnt");
    let record = |options: &[&str]| {
        let mut record = place.command(&stage.reenact);
        record.arg("record").args(options).arg("--force").arg("--output").arg(&trace);
        place.run(record.arg("./raised").args(status))?.success("recorded")
    };
    let warning = "runs without the rights of its file";
    ensure!(!record(&[])?.errors().contains(warning), "a warning where no rights are");
    raise(&raised.display().to_string())?;
    let recorded = record(&[])?;
    ensure!(recorded.text() == plain.text(), "it has rights:\n{}", recorded.text());
    ensure!(recorded.errors().contains(warning), "no warning: {}", recorded.errors());
    ensure!(record(&["--quiet"])?.errors().is_empty(), "--quiet warns");
    let info = place.run(place.command(&stage.reenact).arg("info").arg(&trace))?;
    ensure!(info.text().contains("without the rights"), "info says:\n{}", info.text());
    Info::of(stage, &trace)?.must_be_complete()
}

/// A program with rights but without execute permission, followed by one that runs.
fn failing_execs_are_no_gaps(stage: &Stage, who: Who, raise: Raise) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let raised = place.work().join("raised");
    fs::copy("/bin/grep", &raised).map_err(|error| error.to_string())?;
    raise(&raised.display().to_string())?;
    let mode = fs::metadata(&raised).map_err(|error| error.to_string())?.permissions().mode();
    let closed = fs::Permissions::from_mode(mode & !0o111);
    fs::set_permissions(&raised, closed).map_err(|error| error.to_string())?;
    let script = "./raised; ./raised; exec 2> errors; ./raised; /bin/echo after";
    let trace = place.trace("failing.rnt");
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--output"]).arg(&trace).args(["--", "sh", "-c", script]);
    let recorded = place.run(&mut record)?.success("recorded")?;
    ensure!(recorded.text() == "after\n", "it printed {}", recorded.text());
    let info = Info::of(stage, &trace)?;
    info.must_be_complete()?;
    ensure!(info.count("execve") == 4, "{} execs", info.count("execve"));
    Ok(())
}
