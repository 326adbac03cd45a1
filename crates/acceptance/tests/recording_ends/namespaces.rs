//! Containers and namespaces of all kinds, with short-lived processes in them.

use std::os::unix::process::CommandExt;
use std::process::Command;

use acceptance::place::{PATIENCE, Place, Who, are_root, kill_group, wait};
use acceptance::program::{self, Need};
use acceptance::shown::Info;
use acceptance::stage::Stage;
use acceptance::trials::{self, Trials};
use acceptance::{Complaint, ensure, tier};

use crate::{appears, record};

pub fn add(trials: &mut Trials) {
    for who in [Who::User, Who::Root] {
        let own = if who == Who::Root { "unshare" } else { "unshare --user --map-root-user" };
        let user_namespaces = || {
            let has = trials::has(Need::UserNamespaces, who);
            (who == Who::User && !has).then_some("user namespaces")
        };
        for (name, options) in UNSHARED {
            let wrapper = format!("{own} {options}");
            let check = move |stage: &Stage, who| works(stage, who, &wrapper);
            trials.add(&format!("unshare_{name}"), who, user_namespaces(), check);
        }
        let missing = trials::missing(&["bwrap"]).or_else(user_namespaces);
        for (name, wrapper) in BUBBLES {
            let check = move |stage: &Stage, who| works(stage, who, wrapper);
            trials.add(&format!("bwrap_{name}"), who, missing, check);
        }
    }
    let has = trials::has(Need::UserNamespaces, Who::User);
    let missing = match (has, are_root()) {
        (false, _) => Some("user namespaces"),
        (true, false) => Some("root beside the user"),
        (true, true) => None,
    };
    trials.add("others_in_namespaces", Who::User, missing, others_in_namespaces);
    let missing = trials::missing(&["runc"]).or_else(|| (!are_root()).then_some("root"));
    trials.add("runc", Who::Root, missing, runc);
    for (name, needs, command) in
        [("nspawn", NSPAWN_NEEDS, NSPAWN), ("podman", PODMAN_NEEDS, PODMAN)]
    {
        let missing = trials::missing(needs)
            .or_else(|| (!are_root()).then_some("root"))
            .or_else(|| (!tier::is_long()).then_some("the long tier"));
        trials.add(name, Who::Root, missing, move |stage, who| in_tree(stage, who, command));
    }
}

/// Containers of a tree that borrows this machine's `/usr`. `ROOT` stands for the tree.
const NSPAWN_NEEDS: &[&str] = &["systemd-nspawn"];
const NSPAWN: &str = "systemd-nspawn --quiet --console=pipe --register=no --keep-unit \
    --directory=ROOT --bind-ro=/usr";
const PODMAN_NEEDS: &[&str] = &["podman", "runc"];
const PODMAN: &str = "podman --cgroup-manager=cgroupfs --runtime runc run --rm --network=none \
    --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 --volume /usr:/usr:ro --rootfs ROOT";

const UNSHARED: &[(&str, &str)] = &[
    ("pid", "--pid --fork"),
    ("pid_and_proc", "--pid --fork --mount-proc"),
    ("pid_and_ipc", "--pid --ipc --fork"),
    ("all", "--pid --ipc --uts --mount --net --cgroup --fork --mount-proc"),
    ("pid_killed_with_its_parent", "--pid --fork --kill-child"),
    ("time_and_pid", "--time --pid --fork"),
    ("twice", "--pid --fork --mount-proc unshare --pid --fork --mount-proc"),
];

const BUBBLES: &[(&str, &str)] = &[
    ("all", "bwrap --unshare-all --ro-bind / / --proc /proc --dev /dev"),
    (
        "as_first",
        "bwrap --unshare-all --as-pid-1 --die-with-parent --ro-bind / / --proc /proc --dev /dev",
    ),
    ("new_session", "bwrap --unshare-pid --new-session --ro-bind / / --proc /proc --dev /dev"),
];

/// Many processes that end before they can be inspected, with and without an exec.
const WORK: &str = "
    (true); true
    (:) & wait
    x=$(echo a); echo $x
    (:) | (:)
    for i in 1 2 3 4 5 6 7 8; do (exit 0); done
    echo one | (read line; (echo $line)) | cat
    /bin/true; (/bin/true; /bin/true) & (exec /bin/true) & wait
    (setsid sh -c '(sleep 0.02; /bin/true) &' &)
    for i in 1 2 3; do (exit $i) & (sh -c 'exit 3') & done; wait
    echo the end";

fn works(stage: &Stage, who: Who, wrapper: &str) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let command: Vec<&str> = wrapper.split_whitespace().chain(["bash", "-c", WORK]).collect();
    let (program, args) = command.split_first().ok_or("no command")?;
    let alone = place.run(place.command(program).args(args))?.success("alone")?;
    for round in 0..3 {
        let trace = place.trace(&format!("{round}.rnt"));
        let recorded = place.run(&mut record(stage, &place, &["--quiet"], &trace, &command))?;
        let recorded = recorded.success("recorded")?;
        ensure!(
            alone.text() == recorded.text() && alone.errors() == recorded.errors(),
            "alone:\n{}{}\nrecorded:\n{}{}",
            alone.text(),
            alone.errors(),
            recorded.text(),
            recorded.errors()
        );
        let info = Info::of(stage, &trace)?;
        info.must_be_complete_but_for(stage, &trace, &[])?;
        ensure!(info.processes > 20, "{} processes", info.processes);
    }
    Ok(())
}

/// A runc container that uses this machine's system directories.
fn runc(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let mounts = ["/usr", "/bin", "/lib", "/lib64", "/etc"].map(|from| {
        format!(
            r#"{{"destination":"{from}","source":"{from}","options":["rbind","ro"],"type":"bind"}}"#
        )
    });
    let kinds =
        ["pid", "ipc", "uts", "mount", "network"].map(|kind| format!(r#"{{"type":"{kind}"}}"#));
    let script = WORK.replace('\n', " ; ").replace("  ", " ").replacen(" ; ", "", 1);
    let config = format!(
        r#"{{"ociVersion":"1.0.0","hostname":"inside","root":{{"path":"root"}},
            "process":{{"user":{{"uid":0,"gid":0}},"cwd":"/","env":["PATH=/usr/bin:/bin"],
                "args":["bash","-c","{script}"],"noNewPrivileges":true}},
            "mounts":[{{"destination":"/proc","type":"proc","source":"proc"}},{}],
            "linux":{{"namespaces":[{}]}}}}"#,
        mounts.join(","),
        kinds.join(",")
    );
    place.write("config.json", config.as_bytes())?;
    let root = place.work().join("root");
    std::fs::create_dir(&root).map_err(|error| error.to_string())?;
    let name = format!("reenact-{}", std::process::id());
    let state = place.path("state").display().to_string();
    let bundle = place.work().display().to_string();
    let command = ["runc", "--root", &state, "run", "--bundle", &bundle, &name];
    let alone = place.run(place.command(command[0]).args(&command[1..]))?.success("alone")?;
    let trace = place.trace("runc.rnt");
    let recorded = place.run(&mut record(stage, &place, &["--quiet"], &trace, &command))?;
    let recorded = recorded.success("recorded")?;
    ensure!(alone.text() == recorded.text(), "it printed:\n{}", recorded.text());
    ensure!(recorded.text().ends_with("the end\n"), "it printed:\n{}", recorded.text());
    Info::of(stage, &trace)?.must_be_complete_but_for(stage, &trace, &[])
}

fn in_tree(stage: &Stage, who: Who, command: &str) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let tree = place.work().join("tree");
    let told = |error: std::io::Error| format!("{}: {error}", tree.display());
    for name in ["usr", "etc", "proc", "dev", "sys", "tmp", "run"] {
        std::fs::create_dir_all(tree.join(name)).map_err(told)?;
    }
    for name in ["bin", "lib", "lib64"] {
        std::os::unix::fs::symlink(format!("usr/{name}"), tree.join(name)).map_err(told)?;
    }
    // Without it the tree is not taken for one of an operating system.
    std::fs::write(tree.join("etc/os-release"), "").map_err(told)?;
    let tree = tree.display().to_string();
    let words = command.split_whitespace().map(|word| word.replace("ROOT", &tree));
    let mut words: Vec<String> = words.collect();
    words.extend(["bash", "-c", WORK].map(str::to_owned));
    let alone = place.run(place.command(&words[0]).args(&words[1..]))?.success("alone")?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    for round in 0..3 {
        let trace = place.trace(&format!("{round}.rnt"));
        let recorded = place.run(&mut record(stage, &place, &["--quiet"], &trace, &words))?;
        let recorded = recorded.success("recorded")?;
        ensure!(alone.text() == recorded.text(), "it printed:\n{}", recorded.text());
        ensure!(recorded.text().ends_with("the end\n"), "it printed:\n{}", recorded.text());
        let info = Info::of(stage, &trace)?;
        info.must_be_complete_but_for(stage, &trace, &[])?;
        ensure!(info.processes > 20, "{} processes", info.processes);
    }
    Ok(())
}

/// Children are killed before they have begun, and processes of another user, which nobody may look
/// into, get the ids that they had in namespaces of their own.
fn others_in_namespaces(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let binary = program::named("short_lives_in_namespaces")?.build(stage)?;
    let trace = place.trace("others.rnt");
    let script = "touch begun; until test -e others; do sleep 0.01; done; exec \"$0\" 1";
    let words = ["sh", "-c", script, &binary.to_string_lossy()];
    let mut command = record(stage, &place, &["-q"], &trace, &words);
    let recorded = command.spawn().map_err(|error| error.to_string())?;
    let others = appears(&place.work().join("begun")).and_then(|()| {
        let script = "for i in 1 2 3 4 5 6 7 8; do sleep 60 & done; touch others; wait";
        let mut unshare = Command::new("unshare");
        unshare.args(["--pid", "--fork", "--kill-child", "sh", "-c", script]);
        unshare.current_dir(place.work()).process_group(0);
        unshare.spawn().map_err(|error| format!("unshare: {error}"))
    });
    if others.is_err() {
        kill_group(&recorded);
    }
    let status = wait(recorded, PATIENCE, "recorded");
    let mut others = others?;
    kill_group(&others);
    others.wait().map_err(|error| error.to_string())?;
    let status = status?;
    ensure!(status.success(), "recorded: {status}");
    Info::of(stage, &trace)?.must_be_complete()
}
