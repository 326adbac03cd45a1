//! The text of strace: exports of recordings equal what strace prints, for every call of everyday
//! programs; and the output of strace can be imported and replayed.

mod lines;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use acceptance::place::{Place, Who};
use acceptance::stage::Stage;
use acceptance::twins::must_be_twins;
use acceptance::{Complaint, ensure, trials};
use lines::{Threads, Unsteady};

const OPTIONS: &[&str] = &["-f", "-ttt", "-T", "-xx", "-v", "-s", "1000000"];
/// Programs with concurrent processes do not make the same calls in every run.
const ATTEMPTS: u32 = 6;
/// Works replayed from strace's output, and whether it has all data: `cp` lets the kernel copy
/// files, so that no call has their contents.
const REPLAYED: &[(&str, bool)] = &[("sqlite3", true), ("cp", false), ("tar", true)];
/// Most lines of a difference that are printed.
const SHOWN_MAX: usize = 12;

/// An everyday program.
struct Work {
    name: &'static str,
    needs: &'static str,
    /// Script that makes the existing files.
    given: &'static str,
    command: &'static [&'static str],
    unsteady: Unsteady,
}

const STEADY: Unsteady = Unsteady { signals: &[], random: &[], by_chance: &[] };

const FILES: &str = "mkdir src src/deep; for i in 1 2 3; do seq 1 ${i}00 > src/f$i; done; \
    ln -s f1 src/link; ln src/f2 src/deep/same; chmod 750 src/f3; \
    find . -exec touch -h -d @1600000000 {} +";

/// Calls that few everyday programs make.
const CALLS: &str = include_str!("calls.py");

const WORKS: &[Work] = &[
    Work {
        name: "ls",
        needs: "ls",
        given: FILES,
        command: &["/bin/ls", "-la", "src"],
        unsteady: STEADY,
    },
    Work {
        name: "cat",
        needs: "cat",
        given: FILES,
        command: &["/bin/cat", "src/f1", "none"],
        unsteady: STEADY,
    },
    Work {
        // All are named: cp visits what it finds in a directory by the numbers of its inodes.
        name: "cp",
        needs: "cp",
        given: FILES,
        command: &["/bin/cp", "-a", "src/f1", "src/f2", "src/f3", "src/link", "src/deep", "."],
        unsteady: STEADY,
    },
    Work {
        name: "grep",
        needs: "grep",
        given: FILES,
        command: &["/bin/grep", "-r", "42", "src"],
        // It reads its mappings to find its stack, and a recorded program has more mappings.
        unsteady: Unsteady { signals: &[], random: &[], by_chance: &["read(3, "] },
    },
    Work {
        name: "tar",
        needs: "tar",
        given: FILES,
        command: &["/bin/tar", "-cf", "a.tar", "src"],
        unsteady: STEADY,
    },
    Work {
        name: "sqlite3",
        needs: "sqlite3",
        given: "true",
        command: &[
            "/usr/bin/sqlite3",
            "a.db",
            "create table t(a, b); insert into t values (1, 2), (3, 4); select * from t; \
             update t set b = 5; vacuum",
        ],
        // Journal headers are random.
        unsteady: Unsteady { signals: &[], random: &["read(5, ", "pwrite64(4, "], by_chance: &[] },
    },
    Work {
        name: "python3",
        needs: "/usr/bin/python3",
        given: "true",
        command: &[
            "/usr/bin/env",
            "MALLOC_ARENA_MAX=1",
            "/usr/bin/python3",
            "-ISc",
            "import os, signal, threading\n\
             signal.signal(signal.SIGUSR1, lambda *a: None)\n\
             os.kill(os.getpid(), signal.SIGUSR1)\n\
             thread = threading.Thread(target=lambda: os.listdir('.'))\n\
             thread.start(); thread.join()\n\
             r, w = os.pipe()\n\
             if os.fork() == 0: os.write(w, b'child'); os._exit(3)\n\
             os.wait(); print(os.read(r, 9), os.uname().sysname, os.statvfs('.').f_bsize)\n\
             os.mkdir('d'); os.rename('d', 'e'); os.rmdir('e')\n\
             os.writev(w, [b'ab', b'cd']); os.readv(r, [bytearray(3), bytearray(9)])\n\
             open('x', 'w').write('y' * 100); os.truncate('x', 5); os.utime('x', (1, 2))\n\
             os.chmod('x', 0o4711); os.link('x', 'z'); os.symlink('x', 's'); os.readlink('s')\n\
             os.mkfifo('p'); os.stat('p'); os.setxattr('x', 'user.a', b'b'); os.listxattr('x')",
        ],
        // Whether threads wait for each other depends on timing.
        unsteady: Unsteady { signals: &["SIGUSR1"], random: &[], by_chance: &["futex("] },
    },
    Work {
        name: "calls",
        needs: "/usr/bin/python3",
        given: "true",
        command: &["/usr/bin/env", "MALLOC_ARENA_MAX=1", "/usr/bin/python3", "-ISc", CALLS],
        // Whether the heap can grow depends on its address.
        unsteady: Unsteady {
            signals: &[],
            random: &[],
            by_chance: &["brk(", "mmap(NULL, 1048576, "],
        },
    },
    Work {
        name: "git",
        needs: "git",
        given: "git init -q r; cd r; git config user.name a; git config user.email a@b.c; \
            seq 9 > f; touch -d @1600000000 f; git add f; export GIT_AUTHOR_DATE='1600000000 +0000'; \
            GIT_COMMITTER_DATE=$GIT_AUTHOR_DATE git commit -qm one; echo >> f; seq 3 > new",
        command: &["/usr/bin/git", "-C", "r", "status"],
        unsteady: STEADY,
    },
    Work {
        name: "sh",
        needs: "sh",
        given: FILES,
        command: &["/bin/sh", "-c", "cat src/f1 | sort -n | head -3 > out; wait; echo done"],
        // The order in which children end, and whether the shell waits by then, varies.
        unsteady: Unsteady { signals: &[], random: &[], by_chance: &["wait4(", "rt_sigreturn("] },
    },
    Work {
        name: "gcc",
        needs: "gcc",
        given: "echo 'int main(void) { return 0; }' > a.c; touch -d @1600000000 a.c",
        command: &["/usr/bin/gcc", "-O1", "-o", "a", "a.c"],
        // In one of twenty runs, a random name exists and another one is drawn.
        unsteady: Unsteady { signals: &[], random: &[], by_chance: &["getrandom("] },
    },
];

fn main() -> ExitCode {
    trials::main(|trials| {
        let other = (!is_known_version()).then_some("strace 6.1");
        for work in WORKS {
            let missing = trials::missing(&["strace", work.needs]).or(other);
            trials.add_for_both(&format!("equal/{}", work.name), missing, |stage, who| {
                equal(stage, who, work)
            });
        }
        for work in WORKS {
            let missing = trials::missing(&["strace", work.needs]).or(other);
            trials.add_for_both(&format!("import/{}", work.name), missing, |stage, who| {
                import(stage, who, work)
            });
        }
        let missing = trials::missing(&["strace", "tar"]);
        trials.add("import/short", Who::User, missing, short);
        trials.add("import/refused", Who::User, None, refused);
        trials.add_for_both("import/late", None, late);
        trials.add("import/unknown", Who::User, None, unknown);
        Ok(())
    })
}

/// The output of strace differs between versions; ours follows this one.
fn is_known_version() -> bool {
    let said = std::process::Command::new("strace").arg("-V").output();
    said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains("-- version 6.1\n"))
}

/// strace's output and the export of a recording of the same program are equal.
fn equal(stage: &Stage, who: Who, work: &Work) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let mut straced = Vec::new();
    let mut complaint = String::new();
    for attempt in 0..ATTEMPTS {
        straced.push(lines::threads(&strace(&place, work, OPTIONS)?, &work.unsteady)?);
        let exported = export(stage, &place, work, attempt)?;
        let recorded = lines::threads(&exported, &work.unsteady)?;
        let differences = straced.iter().map(|straced| difference(straced, &recorded));
        // At least one run under strace must have made the same calls.
        match differences.min_by_key(Vec::len) {
            Some(least) if least.is_empty() => return Ok(()),
            Some(least) => complaint = least[..least.len().min(SHOWN_MAX)].join("\n"),
            None => {}
        }
    }
    Err(format!("the text differs from strace's (-) in every run:\n{complaint}"))
}

/// The output of strace is imported and exported unchanged; some of it is replayed to the same
/// files, both with the initial files in a directory and from the text alone.
fn import(stage: &Stage, who: Who, work: &Work) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let (text, trace) = (place.trace("strace.txt"), place.trace("imported.rnt"));
    let options: Vec<&str> = OPTIONS.iter().copied().chain(["-y"]).collect();
    let printed = strace(&place, work, &options)?;
    reenact(stage, &place, &["import", "--quiet"], &[&text, Path::new("-o"), &trace], &[0])?;
    let info = reenact(stage, &place, &["info"], &[&trace], &[0])?;
    ensure!(info.contains("imported"), "info does not tell that it was imported:\n{info}");
    ensure!(!info.contains("complete     yes"), "an imported trace proves completeness:\n{info}");
    let again = place.trace("again.txt");
    reenact(stage, &place, &["export", "--to", "strace", "-o"], &[&again, &trace], &[0])?;
    let again = fs::read_to_string(&again).map_err(|error| error.to_string())?;
    let first = lines::threads(&lines::without_labels(&printed), &work.unsteady)?;
    let least = difference(&first, &lines::threads(&again, &work.unsteady)?);
    ensure!(least.is_empty(), "imported and exported:\n{}", least.join("\n"));

    let Some((_, told)) = REPLAYED.iter().find(|(name, _)| *name == work.name) else {
        return Ok(());
    };
    let (after, image) = (place.path("after"), place.trace("image"));
    fs::rename(place.work(), &after).map_err(|error| error.to_string())?;
    prepare(&place, work)?;
    let inside = |root: &Path| root.join(place.work().strip_prefix("/").expect("absolute"));
    fs::create_dir_all(inside(&image).parent().expect("below the root"))
        .map_err(|e| e.to_string())?;
    fs::rename(place.work(), inside(&image)).map_err(|error| error.to_string())?;
    place.clear()?;
    // Libraries are not in the directory, so their calls may mismatch.
    let mut roots = vec![(place.trace("of-directory"), Some(&image), &[0, 4][..])];
    if *told {
        roots.push((place.trace("of-text"), None, &[0][..]));
    }
    for (root, image, codes) in roots {
        let mut paths = vec![Path::new("--root"), &root];
        if let Some(image) = image {
            paths.extend([Path::new("--image"), image]);
        }
        paths.push(&trace);
        reenact(stage, &place, &["replay"], &paths, codes)?;
        must_be_twins(&after, &inside(&root))?;
    }
    Ok(())
}

/// Buffers that strace cut are marked as such.
fn short(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let work = WORKS.iter().find(|work| work.name == "tar").ok_or("no such work")?;
    strace(&place, work, &["-f", "-s", "8"])?;
    let (text, trace) = (place.trace("strace.txt"), place.trace("imported.rnt"));
    let told = reenact(stage, &place, &["import"], &[&text, Path::new("-o"), &trace], &[0])?;
    ensure!(told.contains("not captured"), "what is missing is not told:\n{told}");
    let shown = reenact(stage, &place, &["show", "--call", "write"], &[&trace], &[0])?;
    ensure!(shown.contains(", 10240) = 10240"), "a cut buffer is not shown so:\n{shown}");
    ensure!(shown.contains("\"..., 10240)"), "a cut buffer is not shown as such:\n{shown}");
    Ok(())
}

/// The error names the invalid line, and no trace is left.
fn refused(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("text", b"1 0.1 getpid() = 1\n1 0.2 read(3, \"\\x4\", 5) = 5\n")?;
    let (text, trace) = (place.work().join("text"), place.trace("refused.rnt"));
    let paths = [&*text, Path::new("-o"), &trace];
    let said = reenact(stage, &place, &["import"], &paths, &[1])?;
    ensure!(said.contains("line 2: "), "the line is not named:\n{said}");
    ensure!(!trace.exists(), "half a trace is left");
    place.write("text", b"1 0.1 getpid() = 1\n1 0.2 +++ exited with 0 +++\n")?;
    reenact(stage, &place, &["import"], &paths, &[0])?;
    let said = reenact(stage, &place, &["import"], &paths, &[1])?;
    ensure!(said.contains("--force"), "an existing trace is not kept:\n{said}");
    Ok(())
}

/// A reader whose printed duration ends too early: it returned when its second line was printed,
/// after the write that it waited for had begun.
const LATE: &[u8] = b"\
    7 1795000000.000100 execve(\"/bin/readers\", [\"readers\"], [\"A=b\"]) = 0 <0.000150>\n\
    7 1795000000.000500 pipe2([3, 4], 0) = 0 <0.000010>\n\
    7 1795000000.000600 clone(child_stack=NULL, flags=SIGCHLD) = 8 <0.000050>\n\
    8 1795000000.000700 read(3,  <unfinished ...>\n\
    7 1795000000.000780 write(4, \"a\", 1) = 1 <0.000004>\n\
    8 1795000000.000796 <... read resumed>\"a\", 9) = 1 <0.000051>\n\
    8 1795000000.000900 exit_group(0) = ?\n\
    8 1795000000.000950 +++ exited with 0 +++\n\
    7 1795000000.001000 exit_group(0) = ?\n\
    7 1795000000.001100 +++ exited with 0 +++\n";

fn late(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("text", LATE)?;
    let (text, trace) = (place.work().join("text"), place.trace("late.rnt"));
    reenact(stage, &place, &["import"], &[&text, Path::new("-o"), &trace], &[0])?;
    let said = reenact(stage, &place, &["replay"], &[&trace], &[0])?;
    ensure!(said.contains(" 0 mismatched"), "the replay went otherwise:\n{said}");
    // The exported exec has the path, although `argv[0]` is not one.
    let paths = [Path::new("-"), &trace];
    let again = reenact(stage, &place, &["export", "--to", "strace", "-o"], &paths, &[0])?;
    let path: String = b"/bin/readers".iter().map(|byte| format!("\\x{byte:02x}")).collect();
    ensure!(again.contains(&format!("execve(\"{path}\", [")), "no {path} in:\n{again}");
    Ok(())
}

/// Nothing is made up that the text does not have.
fn unknown(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("text", b"7 12:00:01 getpid() = 7\n7 12:00:02 +++ exited with 0 +++\n")?;
    let (text, trace) = (place.work().join("text"), place.trace("unknown.rnt"));
    reenact(stage, &place, &["import"], &[&text, Path::new("-o"), &trace], &[0])?;
    let info = reenact(stage, &place, &["info"], &[&trace], &[0])?;
    for line in [
        "command      not known\n",
        "recorded     date not known, host not known, by strace\n",
        "kernel       not known\n",
        "machine      not known\n",
    ] {
        ensure!(info.contains(line), "no line '{line}' in:\n{info}");
    }
    Ok(())
}

/// Runs reenact, which must exit with one of the codes, and returns its output.
fn reenact(
    stage: &Stage,
    place: &Place,
    words: &[&str],
    paths: &[&Path],
    codes: &[i32],
) -> Result<String, Complaint> {
    let mut command = place.command(&stage.reenact);
    command.args(words).args(paths);
    let outcome = place.run(&mut command)?;
    let said = format!("{}{}", outcome.text(), outcome.errors());
    let code = outcome.status.code();
    ensure!(
        code.is_some_and(|code| codes.contains(&code)),
        "{words:?}: {code:?}; it said:\n{said}"
    );
    Ok(said)
}

fn prepare(place: &Place, work: &Work) -> Result<(), Complaint> {
    place.clear()?;
    let mut give = place.command("sh");
    place.run(give.args(["-c", &format!("umask 022; {}", work.given)]))?.success("given")?;
    Ok(())
}

fn strace(place: &Place, work: &Work, options: &[&str]) -> Result<String, Complaint> {
    prepare(place, work)?;
    let text = place.trace("strace.txt");
    let mut command = place.command("strace");
    command.args(options).arg("-o").arg(&text).args(work.command);
    place.run(&mut command)?;
    fs::read_to_string(&text).map_err(|error| format!("{}: {error}", text.display()))
}

fn export(stage: &Stage, place: &Place, work: &Work, attempt: u32) -> Result<String, Complaint> {
    prepare(place, work)?;
    let trace = place.trace(&format!("{attempt}.rnt"));
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--output"]).arg(&trace).arg("--").args(work.command);
    place.run(&mut record)?;
    let text = place.trace(&format!("{attempt}.txt"));
    let mut export = place.command(&stage.reenact);
    export.args(["export", "--to", "strace", "-o"]).arg(&text).arg(&trace);
    place.run(&mut export)?.success("exported")?;
    fs::read_to_string(&text).map_err(|error| format!("{}: {error}", text.display()))
}

/// Returns the lines that only one side has, thread by thread.
fn difference(straced: &Threads, recorded: &Threads) -> Vec<String> {
    let mut told = Vec::new();
    let none = Vec::new();
    let names = straced.keys().chain(recorded.keys().filter(|name| !straced.contains_key(*name)));
    for name in names {
        let left = straced.get(name).unwrap_or(&none);
        let right = recorded.get(name).unwrap_or(&none);
        let same = left.iter().zip(right).take_while(|(a, b)| a == b).count();
        let rest = |lines: &[String]| lines.get(same).cloned();
        if left.len() != right.len() || same < left.len() {
            told.push(format!("{name}, call {same}:"));
            told.extend(rest(left).map(|line| format!("- {line}")));
            told.extend(rest(right).map(|line| format!("+ {line}")));
        }
    }
    told
}
