//! Files on a server that does not answer block only programs that would block unrecorded.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use acceptance::place::{Place, Who};
use acceptance::program::Need;
use acceptance::shown::Info;
use acceptance::stage::{Stage, open_to_all};
use acceptance::trials::{self, Trials};
use acceptance::{Complaint, ensure};

use crate::{attack, record};

pub fn add(trials: &mut Trials) {
    for who in [Who::User, Who::Root] {
        for how in ["execute", "close", "give"] {
            let check = move |stage: &Stage, who| others_go_on(stage, who, how);
            let namespaces = who == Who::Root || trials::has(Need::UserNamespaces, who);
            let missing = trials::missing(&["cc"])
                .or((!namespaces).then_some("user namespaces"))
                .or((!may_serve_files(who)).then_some("/dev/fuse"));
            trials.add(&format!("files_that_do_not_answer/{how}"), who, missing, check);
        }
    }
}

fn may_serve_files(who: Who) -> bool {
    let everybody = |mode: u32| mode & 0o006 == 0o006;
    let found = std::fs::metadata("/dev/fuse");
    found.is_ok_and(|found| who == Who::Root || everybody(found.permissions().mode()))
}

/// A program of several pages, the first of which has no code.
const PROGRAM: &str = "static const char filler[3 * 4096] = {1};
    void _start(void) {
        __asm__ volatile(\"syscall\" : : \"a\"(231), \"D\"(filler[5]) : \"rcx\", \"r11\");
    }";

fn others_go_on(stage: &Stage, who: Who, how: &str) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let (server, trace) = (attack(stage, "silent_files")?, place.trace("silent.rnt"));
    place.write("small.c", PROGRAM.as_bytes())?;
    let small = place.path("small");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-static", "-nostdlib", "-o"]).arg(&small).arg(place.work().join("small.c"));
    let built = cc.output().map_err(|error| format!("cannot run cc: {error}"))?;
    ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    open_to_all(&small)?;
    let small = small.display().to_string();
    let own = ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private"];
    let own = own.iter().filter(|word| who == Who::User || !word.contains("user"));
    let command: Vec<&str> = own.copied().chain([&*server, how, &small]).collect();
    let recorded = place.run(&mut record(stage, &place, &["-q"], &trace, &command))?;
    let recorded = recorded.success("recorded")?;
    ensure!(recorded.text() == "others go on\n", "it printed {}", recorded.text());
    let info = Info::of(stage, &trace)?;
    // A program that passes a bad socket to the recorder is no longer recorded.
    if how != "give" {
        info.must_be_complete()?;
    }
    ensure!(info.count("execve") >= 6, "{} execs", info.count("execve"));
    Ok(())
}
