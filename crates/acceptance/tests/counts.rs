//! Number of calls by name in a recording, compared with the counts of strace on unrecorded runs of
//! the same work.

use std::process::ExitCode;

use acceptance::expectation::Expectations;
use acceptance::place::{Place, Who};
use acceptance::program;
use acceptance::shown::Info;
use acceptance::stage::Stage;
use acceptance::strace::{self, Comparison, Counts};
use acceptance::{Complaint, ensure, tier, trials};

/// A real program doing real work.
struct Work {
    name: &'static str,
    /// Programs that must be installed.
    needs: &'static [&'static str],
    command: &'static [&'static str],
    /// Files that must exist before.
    files: &'static [(&'static str, &'static str)],
}

const WORKS: &[Work] = &[
    Work {
        name: "sqlite3",
        needs: &["sqlite3"],
        command: &[
            "sqlite3",
            "test.db",
            "create table t(a integer primary key, b text);
             with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
             insert into t select i, hex(i * 7919) from n;
             create index by_b on t(b);
             update t set b = b || 'x' where a % 7 = 0;
             delete from t where a % 11 = 0;
             select count(*), sum(length(b)) from t;
             vacuum;",
        ],
        files: &[],
    },
    Work {
        name: "tar",
        needs: &["tar"],
        command: &["tar", "--sort=name", "-cf", "headers.tar", "-C", "/usr/include", "linux"],
        files: &[],
    },
    Work {
        name: "gcc",
        needs: &["gcc"],
        command: &["gcc", "-O2", "-c", "hello.c", "-o", "hello.o"],
        files: &[(
            "hello.c",
            "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
             int main(void) { return printf(\"hello %zu\\n\", strlen(\"world\")) > 0 ? 0 : 1; }\n",
        )],
    },
    Work {
        name: "git",
        needs: &["git"],
        command: &[
            "sh",
            "-c",
            "export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_OPTIONAL_LOCKS=0 GIT_AUTHOR_DATE='1700000000 +0000' \
             GIT_COMMITTER_DATE='1700000000 +0000' GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.c \
             GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.c; \
             git init -q -b main r && cd r && for i in 1 2 3; do echo line $i > f$i; touch -d @1600000000 f$i; git add f$i; \
             git -c gc.auto=0 -c maintenance.auto=false commit -q -m change-$i; done && \
             git log --oneline > log && git status --short && git -c grep.threads=1 grep -c line",
        ],
        files: &[],
    },
    Work {
        name: "python3",
        needs: &["python3"],
        command: &[
            "/usr/bin/python3",
            "-BSEc",
            "import os, json, subprocess\n\
             for i in range(100):\n    with open(f'f{i}', 'wb') as f: f.write(bytes(range(256)) * i)\n\
             total = sum(len(open(f'f{i}', 'rb').read()) for i in range(100))\n\
             print(total, json.dumps(sorted(os.listdir('.')))[:40])\n\
             print(subprocess.run(['/bin/sh', '-c', 'exit 5']).returncode)\n",
        ],
        files: &[],
    },
    Work {
        name: "bash_pipelines",
        needs: &["bash", "sort", "uniq", "tr"],
        command: &[
            "bash",
            "--norc",
            "-c",
            "seq 1 500 | sed 's/7/seven/g' | sort -r > sorted; tr -s 0-9 x < sorted | uniq -c | wc -l; \
             for word in a b c; do sed s/x/$word/ sorted | head -c 100000 | cksum; done; \
             x=$(wc -l < sorted); echo $x; comm -12 <(head -5 sorted | sort) <(tail -5 sorted | sort) | wc -l",
        ],
        files: &[],
    },
];

fn main() -> ExitCode {
    trials::main(|trials| {
        let no_strace = trials::missing(&["strace"]);
        for program in program::all()?.into_iter().filter(|program| program.countable) {
            let name = format!("programs/{}", program.name);
            let of = program.clone();
            trials.add_for_program(&name, &program, no_strace, move |stage: &Stage, who| {
                let mut command = vec![of.build(stage)?.display().to_string()];
                command.push(tier::seed().to_string());
                command.extend(of.args.iter().cloned());
                same_counts(stage, who, &command, &[])
            });
        }
        for work in WORKS {
            let missing = no_strace.or_else(|| trials::missing(work.needs));
            trials.add_for_both(&format!("works/{}", work.name), missing, |stage, who| {
                let command: Vec<String> =
                    work.command.iter().map(|word| word.to_string()).collect();
                same_counts(stage, who, &command, work.files)
            });
        }
        Ok(())
    })
}

/// Most runs under strace before a difference counts.
const STRACE_RUNS_MAX: usize = 24;
/// Number of recordings that must all disagree with strace before a difference counts.
const RECORDINGS_MAX: usize = 3;

fn same_counts(
    stage: &Stage,
    who: Who,
    command: &[String],
    files: &[(&str, &str)],
) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let prepare = || {
        place.clear()?;
        files.iter().try_for_each(|(name, content)| place.write(name, content.as_bytes()))
    };
    // An uncounted run fills the caches.
    prepare()?;
    let alone = place.run(place.command(&command[0]).args(&command[1..]))?;

    let straced = |name: &str| -> Result<Counts, Complaint> {
        prepare()?;
        let lines = place.trace(name);
        let mut strace = place.command("strace");
        strace.args(["-f", "-qq", "-o"]).arg(&lines).args(command);
        let outcome = place.run(&mut strace)?;
        ensure!(outcome.status == alone.status, "under strace: {}", outcome.errors());
        strace::count(&lines)
    };
    let first = straced("first.strace")?;

    let recorded = |name: &str| -> Result<Counts, Complaint> {
        prepare()?;
        let trace = place.trace(name);
        let mut record = place.command(&stage.reenact);
        record.args(["record", "--quiet", "--output"]).arg(&trace).arg("--").args(command);
        let recorded = place.run(&mut record)?;
        ensure!(
            recorded.status == alone.status,
            "alone: {}, recorded: {}; it said:\n{}",
            alone.status,
            recorded.status,
            recorded.errors()
        );
        let rest = |stdout: &[u8]| Ok::<_, Complaint>(Expectations::parse(stdout)?.rest);
        ensure!(rest(&alone.stdout)? == rest(&recorded.stdout)?, "standard output differs");
        let info = Info::of(stage, &trace)?;
        info.must_be_complete()?;
        std::fs::remove_file(&trace).map_err(|error| format!("{name}: {error}"))?;
        let calls = info.by_call.into_iter().filter(|(name, _)| strace::is_call(name));
        Ok(calls.map(|(name, count)| (name, count.count)).collect())
    };
    let mut traced = vec![recorded("counted.rnt")?];
    let mut seen = vec![first, straced("another.strace")?];
    // Counts that depend on timing or random numbers may agree twice by chance (mkstemp retries in
    // one of twenty runs), so a disagreement is checked against more runs of both kinds.
    while !Comparison::new(&seen, &traced).is_good() && seen.len() < STRACE_RUNS_MAX {
        seen.push(straced("another.strace")?);
        if traced.len() < RECORDINGS_MAX {
            traced.push(recorded("counted.rnt")?);
        }
    }
    let left_out = Comparison::new(&seen, &traced).verdict()?;
    if !left_out.is_empty() {
        println!("{}: left out, because they differ from run to run:\n{left_out}", command[0]);
    }
    Ok(())
}
