//! Programs of other users in a recording by root try to gain rights through what the recording has
//! put into their memory. They gain nothing, and root's programs run on undisturbed.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use acceptance::place::{self, PATIENCE, Place, Who};
use acceptance::shown::Info;
use acceptance::stage::{Stage, open_to_all};
use acceptance::tier::{self, Random};
use acceptance::{Complaint, ensure, program, trials};

/// A secret that root's program writes to a file, and that no other user may learn.
const SECRET: &str = "a-secret-that-root-has-written";

/// The secret in another spelling, so that passing it to an attacker does not put it into memory.
fn spelled_otherwise() -> String {
    SECRET.bytes().map(|byte| char::from(byte ^ 1)).collect()
}

/// Command prefix: becomes nobody and executes the attack.
const AS_NOBODY: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups";
/// Command prefix: the same, but with different real and effective user ids.
const AS_TWO: &str = "setpriv --ruid=65533 --euid=65534 --regid=65534 --clear-groups";

/// Records in an IPC namespace of its own: attackers write over all segments of their user, and
/// nobody's recordings in other tests are not to be among them.
fn record_apart(stage: &Stage, place: &Place) -> Command {
    let mut record = place.command("unshare");
    record.arg("--ipc").arg(&stage.reenact).arg("record");
    record
}

/// Ways to turn from root into nobody without an exec: beside a process that shares the memory,
/// after the end of one, under or after a tracer, and in a user namespace that maps other users.
const BECOME: [&str; 8] = [
    "beside-executes",
    "beside-is-killed",
    "beside-works-on",
    "when-left",
    "traced-before",
    "asking-to-be-traced",
    "unmapped",
    "unmapped-by-steps",
];

/// Returns names of attacks, and the shell commands that start them in the background.
fn attacks() -> Vec<(String, String)> {
    let secret = spelled_otherwise();
    let kinds = [
        ("writes_code", "write-code".to_owned()),
        ("grows_arena", "grow-arena".to_owned()),
        ("reads_secret", format!("read-secret '{secret}'")),
        ("attaches_all", "attach-all".to_owned()),
        ("reads_addresses", "read-addresses".to_owned()),
        ("reaches_others", "reach-others".to_owned()),
        ("gains_by_exec", format!("gain-by-exec '{secret}' ./gained secret")),
        ("names_roots_process", "name-others as-roots /bin/true".to_owned()),
        ("scribbles", "scribble 1".to_owned()),
        ("scribbles_otherwise", "scribble 99".to_owned()),
        ("speaks_for_root_exec", "speak-for $$ 1".to_owned()),
        ("speaks_for_root_cancel", "speak-for $$ 2".to_owned()),
        ("speaks_for_root_module", "speak-for $$ 3".to_owned()),
        ("speaks_for_root_user", "speak-for $$ 4".to_owned()),
        ("speaks_for_init", "speak-for 1 1".to_owned()),
    ];
    let mut all = Vec::new();
    for (name, attack) in &kinds {
        all.push((format!("nobody/{name}"), format!("{AS_NOBODY} ./border {attack}")));
        all.push((
            format!("another_ipc_namespace/{name}"),
            format!("unshare --ipc {AS_NOBODY} ./border {attack}"),
        ));
    }
    for (name, attack) in &kinds[..10] {
        all.push((format!("two_users/{name}"), format!("{AS_TWO} ./border {attack}")));
        all.push((
            format!("another_user_namespace/{name}"),
            format!("{AS_NOBODY} unshare --user --map-root-user ./border {attack}"),
        ));
    }
    let kinds =
        [("reads_secret", "read-secret"), ("writes_code", "write-code"), ("scribbles", "scribble")];
    let at_once = kinds.map(|(name, kind)| (name.to_owned(), "at-once", kind));
    let otherwise = BECOME.map(|how| (format!("reads_secret_{how}"), how, "read-secret"));
    for (name, how, kind) in at_once.into_iter().chain(otherwise) {
        for (way, before) in [("", ""), ("_in_another_ipc_namespace", "unshare --ipc ")] {
            all.push((
                format!("without_exec/{name}{way}"),
                format!("{before}./border become {how} {kind} '{secret}'"),
            ));
        }
    }
    all
}

fn main() -> ExitCode {
    trials::main(|trials| {
        let missing = trials::missing(&["setpriv", "unshare", "nsenter", "cc"]);
        for (name, attack) in attacks() {
            trials.add(&name, Who::Root, missing, move |stage, who| is_held(stage, who, &attack));
        }
        trials.add("outsider/attaches_all", Who::Root, missing, outsiders_are_held);
        trials.add("recorder_killed/wiped", Who::Root, missing, all_outlive_the_recorder);
        trials.add_for_both("fuzzed_from_within", missing, recorders_outlive_spoilt_arenas);
        Ok(())
    })
}

/// Puts the attacker into the directory in which the recorded shell runs.
fn put_attacker(stage: &Stage, place: &Place) -> Result<PathBuf, Complaint> {
    let built = program::named_in("tests/attacks", "border")?.build(stage)?;
    let target = place.work().join("border");
    fs::hard_link(&built, &target).map_err(|error| format!("{}: {error}", target.display()))?;
    open_to_all(&place.work())?;
    Ok(target)
}

/// Makes a set-group-id `cat` that may read the secret.
const GAINED: &str =
    "cp /bin/cat gained; chgrp 4242 gained secret; chmod 2755 gained; chmod 640 secret";

/// Number of programs that root runs beside an attack.
fn programs() -> u32 {
    tier::rounds(60, 150)
}

/// Root's own work, which runs for as long as the attack.
fn work() -> String {
    format!("i=0; while [ $i -lt {} ]; do /bin/true || echo died; i=$((i+1)); done", programs())
}

fn is_held(stage: &Stage, who: Who, attack: &str) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    put_attacker(stage, &place)?;
    let work = work();
    let script = format!(
        "umask 077; echo '{SECRET}' > secret; {GAINED}; {attack} > said & {work}; wait $!; echo $?; id -u; cat said"
    );
    let trace = place.trace("attack.rnt");
    let mut record = record_apart(stage, &place);
    record.arg("--output").arg(&trace).args(["--", "sh", "-c", &script]);
    let recorded = place.run(&mut record)?.success("root's program")?;
    ensure!(
        recorded.text() == "0\n0\nheld\n",
        "it printed\n{}{}",
        recorded.text(),
        recorded.errors()
    );
    // Whatever the attackers did to their own arena, all execs by root are recorded.
    let info = Info::of(stage, &trace)?;
    ensure!(
        info.count("execve") >= programs().into(),
        "{} execs of {} calls\n{}{}",
        info.count("execve"),
        info.calls,
        recorded.errors(),
        info.gap_list
    );
    first_process_is_roots(stage, &place)
}

/// Checks that the trace describes the first process as root's shell.
fn first_process_is_roots(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let mut show = place.command(&stage.reenact);
    show.args(["show", "--json", "--data", "none"]).arg(place.trace("attack.rnt"));
    let shown = place.run(&mut show)?.success("show")?;
    for line in shown.text().lines().filter(|line| line.contains("\"state\"")) {
        let event: serde_json::Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
        let is_first = event["type"] == "state" && event["process"] == 1;
        ensure!(!is_first || event["uids"][0] == 0, "root's first process is {}", event["uids"]);
    }
    Ok(())
}

/// The attacker is an unrecorded program of a user who also has programs in the recording.
fn outsiders_are_held(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let border = put_attacker(stage, &place)?;
    let script = format!(
        "echo $$ > shell; {AS_NOBODY} sleep 3 & touch begun; while [ ! -e done ]; do /bin/true || echo died; done; \
         wait; id -u"
    );
    let trace = place.trace("attack.rnt");
    let mut record = record_apart(stage, &place);
    record.args(["--quiet", "--output"]).arg(&trace).args(["--", "sh", "-c", &script]);
    let work = place.work();
    let attacker = std::thread::spawn(move || {
        while !work.join("begun").exists() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
        let shell = fs::read_to_string(work.join("shell")).unwrap_or_default();
        let mut attack = Command::new("nsenter");
        attack.arg(format!("--ipc=/proc/{}/ns/ipc", shell.trim())).args(AS_NOBODY.split(' '));
        let output = attack.arg(&border).arg("attach-all").output();
        let done = fs::write(work.join("done"), "");
        (output, done)
    });
    let recorded = place.run(&mut record)?.success("root's program")?;
    let (output, done) = attacker.join().map_err(|_| "the attacker's thread failed")?;
    done.map_err(|error| error.to_string())?;
    let said = output.map_err(|error| error.to_string())?.stdout;
    ensure!(said == b"held\n", "{}", String::from_utf8_lossy(&said));
    ensure!(recorded.text() == "0\n", "it printed {}", recorded.text());
    Info::of(stage, &trace).map(|_| ())
}

/// The recorder is killed after a user's program has overwritten the memory that announces this.
/// The programs of other users notice all the same, and finish their work.
fn all_outlive_the_recorder(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    put_attacker(stage, &place)?;
    let work = work();
    let script =
        format!("{AS_NOBODY} ./border wipe > said; mv said wiped; sleep 1; {work}; touch done");
    let trace = place.trace("killed.rnt");
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--output"]).arg(&trace).args(["--", "sh", "-c", &script]);
    let mut recorder = record.spawn().map_err(|error| format!("cannot start reenact: {error}"))?;
    let appears = |name: &str| {
        let begun = Instant::now();
        while !place.work().join(name).exists() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        place.work().join(name).exists()
    };
    let wiped = appears("wiped");
    place::signal(&recorder, libc::SIGKILL)?;
    let done = wiped && appears("done");
    // A process that still waits for the recorder is in its group.
    place::kill_group(&recorder);
    recorder.wait().map_err(|error| error.to_string())?;
    ensure!(wiped, "the attack did not come to its end");
    ensure!(done, "root's program waits for a recorder that is gone");
    Ok(())
}

/// Duration of the test in the short and the long tier, and of one program in milliseconds.
const SPOILT_SHORT: Duration = Duration::from_secs(4);
const SPOILT_LONG: Duration = Duration::from_secs(300);
const ONE_MS: u64 = 700;

/// A program writes random bytes over all memory that it shares with the recorder. It may harm
/// itself, but the recorder ends with it, and the trace can be read.
fn recorders_outlive_spoilt_arenas(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    put_attacker(stage, &place)?;
    let mut random = Random(tier::seed());
    let limit = if tier::is_long() { SPOILT_LONG } else { SPOILT_SHORT };
    let (began, trace) = (Instant::now(), place.trace("spoilt.rnt"));
    while began.elapsed() < limit {
        let seed = random.word();
        let mut record = place.command(&stage.reenact);
        record.args(["record", "--quiet", "--force", "--output"]).arg(&trace).args([
            "--",
            "./border",
            "fuzz",
            &seed.to_string(),
            &ONE_MS.to_string(),
        ]);
        let recorded = place.run(&mut record)?;
        let said = recorded.errors();
        let ours = |text: &str| text.contains("panicked") || text.contains("reenact: the recorder");
        ensure!(!ours(&said) && recorded.status.code() != Some(101), "seed {seed}:\n{said}");
        let read = place.run(place.command(&stage.reenact).arg("info").arg(&trace))?;
        ensure!(read.status.success(), "seed {seed}: info: {}", read.errors());
        let show = ["show", "--data", "none", "--json"];
        let shown = place.run(place.command(&stage.reenact).args(show).arg(&trace))?;
        ensure!(shown.status.success(), "seed {seed}: show: {}", shown.errors());
    }
    Ok(())
}
