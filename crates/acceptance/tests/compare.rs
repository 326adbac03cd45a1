//! The manifest of a program's changes is compared with an independent look at the same paths;
//! `reenact compare` must find and name every difference.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acceptance::manifest::{Manifest, below, look};
use acceptance::place::{Place, Who, are_root};
use acceptance::program::{self, Program};
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, tier, trials};
use serde_json::Value;

/// Exit codes of `reenact compare`.
const FAILED: i32 = 1;
const DIFFERENT: i32 = 4;

fn main() -> ExitCode {
    trials::main(|trials| {
        for program in program::all()? {
            let name = format!("manifest_{}", program.name);
            let of = program.clone();
            let check = move |stage: &Stage, who| manifest_of(stage, who, &of);
            trials.add_for_program(&name, &program, None, check);
        }
        trials.add_for_both("manifest_of_awkward_changes", None, awkward_changes);
        trials.add_for_both("every_difference_is_named", None, every_difference_is_named);
        trials.add_for_both("two_trees", None, two_trees);
        trials.add_for_both("without_a_manifest", None, without_a_manifest);
        trials.add_for_both("files_with_other_names", None, files_with_other_names);
        Ok(())
    })
}

fn record(place: &Place, stage: &Stage, name: &str, words: &[&str]) -> Result<PathBuf, Complaint> {
    let trace = place.trace(name);
    let mut command = place.command(&stage.reenact);
    command.args(["record", "--quiet", "--output"]).arg(&trace).args(words);
    place.run(&mut command)?;
    Ok(trace)
}

/// Compares the manifest with the files.
fn agrees(place: &Place, trace: &Path) -> Result<Manifest, Complaint> {
    let manifest = Manifest::of(trace)?;
    ensure!(manifest.scope == Some(0), "no whole manifest: {:?}", manifest.scope);
    let work = place.work();
    for (path, told) in &manifest.files {
        // Other programs may change files elsewhere meanwhile.
        if path.starts_with(&work) {
            let found = look(path, !manifest.untold.contains_key(path))?;
            ensure!(found == *told, "{}:\nmanifest {told}\nfound    {found}", path.display());
        }
    }
    Ok(manifest)
}

/// Every file of the place, which was empty at the start, must be in the manifest.
fn has_all(place: &Place, manifest: &Manifest) -> Result<(), Complaint> {
    // The manifest has paths as the program named them, which may lead through links.
    let straight = |path: &Path| {
        let parent = path.parent().and_then(|parent| fs::canonicalize(parent).ok());
        Some(parent?.join(path.file_name()?))
    };
    let told: BTreeSet<PathBuf> = manifest.files.keys().filter_map(|path| straight(path)).collect();
    for path in below(&place.work())? {
        ensure!(told.contains(&path), "{} was made and is not in the manifest", path.display());
    }
    Ok(())
}

/// Returns the output and exit code of `reenact compare --json`.
fn compare(
    place: &Place,
    stage: &Stage,
    expected: &Path,
    found: &Path,
) -> Result<(Value, Option<i32>), Complaint> {
    let mut command = place.command(&stage.reenact);
    command.arg("compare").arg(expected).arg(found).arg("--json");
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    let json = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}{said}"))?;
    Ok((json, output.status.code()))
}

/// Returns path and kind of each difference below a directory.
fn differences(json: &Value, below: &Path) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let all = json["differences"].as_array().into_iter().flatten();
    let all = all.map(|difference| (text(&difference["path"]), text(&difference["what"])));
    all.filter(|(path, _)| Path::new(path).starts_with(below)).collect()
}

fn manifest_of(stage: &Stage, who: Who, program: &Program) -> Result<(), Complaint> {
    let binary = program.build(stage)?;
    let place = Place::new(stage, who)?;
    let seed = tier::seed().to_string();
    let binary = binary.to_str().ok_or("a path that is no UTF-8")?;
    let mut words = vec!["--", binary, &seed];
    words.extend(program.args.iter().map(String::as_str));
    let trace = record(&place, stage, "program.rnt", &words)?;
    let manifest = agrees(&place, &trace)?;
    // Changes made unrecorded, or in another root, are not in the trace.
    if program.gaps.is_empty() && manifest.left_out == 0 {
        has_all(&place, &manifest)?;
    }
    let (json, _) = compare(&place, stage, Path::new("/"), &trace)?;
    let found = differences(&json, &place.work());
    ensure!(found.is_empty(), "compare finds {found:?}");
    Ok(())
}

/// A script that uses names that are hard to follow.
const AWKWARD: &str = r#"
    mkdir -p a/b real
    echo one > a/b/one
    ln -s real alias
    echo through > alias/through
    cd alias && echo up > ../up && cd ..
    cd a && mv b c && echo two > c/two && cd ..
    mv a moved
    ln moved/c/one hard
    echo more >> hard
    ln -s moved/c/two pointer
    echo changed > pointer
    (cd moved/c && chmod 600 one)
    echo x > gone && rm gone
    mkdir dir && rmdir dir
    echo new > target && echo newer > fresh && mv fresh target
    mkfifo pipe
    truncate -s 1000000 sparse && echo end >> sparse
    exec 5> inherited && sh -c 'echo inherited >&5'
    mkdir deep && cd deep && mkdir deeper && cd deeper && mv ../../deep ../../elsewhere
    echo late > late
"#;

fn awkward_changes(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(&place, stage, "awkward.rnt", &["--", "sh", "-c", AWKWARD])?;
    let manifest = agrees(&place, &trace)?;
    has_all(&place, &manifest)?;
    for gone in ["gone", "dir", "a/b/one", "a", "fresh", "deep"] {
        let told = manifest.files.get(&place.work().join(gone)).map(String::as_str);
        ensure!(told == Some("nothing"), "{gone}: {told:?}");
    }
    let (json, _) = compare(&place, stage, Path::new("/"), &trace)?;
    ensure!(differences(&json, &place.work()).is_empty(), "compare finds {json}");
    Ok(())
}

/// A path, the kind of difference that is found there, and the change that causes it.
type Change = (&'static str, &'static str, fn(&Path) -> std::io::Result<()>);

const CHANGES: &[Change] = &[
    ("file", "content", |root| fs::write(root.join("file"), b"contenT")),
    ("file", "size", |root| fs::write(root.join("file"), b"longer content")),
    ("file", "mode", |root| fs::set_permissions(root.join("file"), Permissions::from_mode(0o700))),
    ("dir", "mode", |root| fs::set_permissions(root.join("dir"), Permissions::from_mode(0o700))),
    ("file", "type", |root| fs::remove_file(root.join("file"))),
    ("gone", "type", |root| fs::write(root.join("gone"), b"")),
    ("pipe", "type", |root| {
        fs::remove_file(root.join("pipe"))?;
        fs::write(root.join("pipe"), b"")
    }),
    ("link", "target", |root| {
        fs::remove_file(root.join("link"))?;
        symlink("nowhere", root.join("link"))
    }),
    ("one", "links", |root| fs::hard_link(root.join("one"), root.join("three"))),
    ("two", "same file", |root| {
        fs::remove_file(root.join("two"))?;
        fs::copy(root.join("one"), root.join("two"))?;
        fs::hard_link(root.join("two"), root.join("other"))
    }),
    ("large", "content", |root| {
        let mut bytes = fs::read(root.join("large"))?;
        bytes[900_000] = 1;
        fs::write(root.join("large"), bytes)
    }),
];

const MAKE: &str = "printf content > file; mkdir dir; echo > gone; rm gone; mkfifo pipe; \
                    ln -s file link; echo > one; ln one two; head -c 1000000 /dev/zero > large";

fn every_difference_is_named(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let check = |name: &str, what: &str, change: &dyn Fn(&Path) -> std::io::Result<()>| {
        place.clear()?;
        let trace =
            record(&place, stage, &format!("{name}-{what}.rnt"), &["--", "sh", "-c", MAKE])?;
        change(&place.work()).map_err(|error| format!("{name}: {error}"))?;
        let expected = (place.work().join(name).display().to_string(), what.to_string());
        for (a, b) in [(&trace, Path::new("/")), (&PathBuf::from("/"), &trace)] {
            let (json, code) = compare(&place, stage, a, b)?;
            let found = differences(&json, &place.work());
            ensure!(found.contains(&expected), "{expected:?} is not found: {found:?}");
            let others = found.iter().any(|(path, _)| *path != expected.0 && what != "same file");
            ensure!(!others, "{expected:?} is not all that is found: {found:?}");
            ensure!(code == Some(DIFFERENT), "{expected:?}: ends with {code:?}");
        }
        Ok::<_, Complaint>(())
    };
    for (name, what, change) in CHANGES {
        check(name, what, change)?;
    }
    if are_root() {
        check("file", "owner", &|root| chown(root.join("file"), Some(12345), None))?;
    }
    Ok(())
}

fn two_trees(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let (a, b) = (place.work().join("a"), place.work().join("b"));
    let make = |dir: &str| format!("mkdir {dir} && cd {dir} && {MAKE}");
    for dir in ["a", "b"] {
        place.run(place.command("sh").args(["-c", &make(dir)]))?.success("sh")?;
    }
    let (json, code) = compare(&place, stage, &a, &b)?;
    ensure!(code == Some(0) && json["ok"] == true, "equal trees: {code:?}, {json}");
    fs::write(b.join("file"), b"other").map_err(|error| error.to_string())?;
    fs::write(b.join("new"), b"").map_err(|error| error.to_string())?;
    let (json, code) = compare(&place, stage, &a, &b)?;
    let found = differences(&json, Path::new("/"));
    let expected = [("/file", "size"), ("/new", "type")];
    let expected = expected.map(|(path, what)| (path.to_string(), what.to_string()));
    ensure!(code == Some(DIFFERENT) && found == expected, "{code:?}: {found:?}");
    Ok(())
}

/// `--same`: what two versions of a program keep in places of their own is compared.
fn files_with_other_names(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let version = |number: u32, content: &str| {
        let line = format!("mkdir v{number} && echo {content} > v{number}/data && echo > other");
        record(&place, stage, &format!("v{number}.rnt"), &["--", "sh", "-c", &line])
    };
    let (one, two, three) = (version(1, "a")?, version(2, "a")?, version(3, "b")?);
    let said = |b: &Path, more: &[&str]| -> Result<(Value, Option<i32>), Complaint> {
        let mut command = place.command(&stage.reenact);
        let output = command.arg("compare").arg(&one).arg(b).arg("--json").args(more).output();
        let output = output.map_err(|error| error.to_string())?;
        let json = serde_json::from_slice(&output.stdout).unwrap_or_default();
        Ok((json, output.status.code()))
    };
    let (json, _) = said(&two, &[])?;
    ensure!(json["unverified_count"] == 4, "without --same: {json}");
    let (json, code) = said(&two, &["--same", "v1=v2"])?;
    ensure!(code == Some(0) && json["unverified_count"] == 0, "{code:?}: {json}");
    let work = place.work().display().to_string();
    let absolute = format!("{work}/v1={work}/v3");
    let (json, code) = said(&three, &["--same", &absolute])?;
    let found = differences(&json, &place.work());
    let expected = (format!("{work}/v3/data"), "content".to_string());
    ensure!(code == Some(DIFFERENT) && found.contains(&expected), "{code:?}: {found:?}");
    // The files that are there now.
    let (json, code) = said(Path::new("/"), &["--same", &format!("{work}/v1/={work}/v2/")])?;
    ensure!(code == Some(0) && json["different"] == 0, "{code:?}: {json}");
    for bad in ["v1", "=v2", "v1=v2"] {
        let (_, code) = said(Path::new("/"), &["--same", bad])?;
        ensure!(code == Some(2), "--same {bad}: {code:?}");
    }
    Ok(())
}

fn without_a_manifest(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let cases: &[(&[&str], Option<u64>, &str)] = &[
        (&["--no-manifest", "--", "sh", "-c", "echo > x"], None, "no manifest"),
        (&["--duration", "50ms", "--", "sh", "-c", "echo > x; sleep 1"], Some(2), "stopped early"),
    ];
    for (words, scope, why) in cases {
        let trace = record(&place, stage, &format!("{scope:?}.rnt"), words)?;
        let manifest = Manifest::of(&trace)?;
        ensure!(manifest.scope == *scope && manifest.files.is_empty(), "{manifest:?}");
        let (json, code) = compare(&place, stage, &trace, &place.work())?;
        let told = json["limited"].as_str().is_some_and(|text| text.contains(why));
        ensure!(told && code == Some(FAILED), "{why}: {code:?}, {json}");
    }
    // With `--until-exit`, remaining processes do not count: the program itself has ended.
    let words = ["--until-exit", "--", "sh", "-c", "sleep 1 & echo > y"];
    let trace = record(&place, stage, "until-exit.rnt", &words)?;
    let manifest = agrees(&place, &trace)?;
    ensure!(manifest.files.contains_key(&place.work().join("y")), "{manifest:?}");
    Ok(())
}
