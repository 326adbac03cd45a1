//! The options of `reenact replay` and `reenact image`, on real recordings.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acceptance::place::{Outcome, Place, Who};
use acceptance::stage::{self, Stage};
use acceptance::{Complaint, ensure, trials};
use serde_json::Value;

/// Exit codes.
const FAILED: i32 = 1;
const USAGE: i32 = 2;
/// Tries of a test that other programs may disturb.
const TRIES: u32 = 10;

fn main() -> ExitCode {
    trials::main(|trials| {
        trials.add_for_both("bind_puts_files_elsewhere", None, bind);
        trials.add_for_both("image_from_a_directory", None, image_from_a_directory);
        trials.add_for_both("image_that_is_there", None, image_that_is_there);
        trials.add_for_both("fill_where_nothing_is_known", None, fill);
        trials.add_for_both("until_keeps_the_files_of_that_moment", None, until);
        trials.add_for_both("repeat_cold", None, repeat_cold);
        trials.add_for_both("waits_for_the_outside_are_told", None, outside);
        trials.add_for_both("what_is_not_empty_is_asked_for", None, what_is_not_empty);
        trials.add_for_both("a_fresh_root_is_closed_to_others", None, fresh_root);
        trials.add_for_both("max_size_ends_a_replay", None, max_size);
        trials.add_for_both("unknown_bytes_are_named", None, unknown_bytes);
        trials.add_for_both("options_that_do_not_fit_are_refused", None, refused);
        trials.add_for_both("a_recording_that_is_cut_off_is_told", None, cut_off);
        trials.add_for_both("all_that_json_tells_is_documented", None, documented);
        trials.add_for_both("an_interrupted_replay_leaves_nothing", None, interrupted);
        trials.add_for_both("hashes_of_filler_are_not_verified", None, hashes_of_filler);
        trials.add_for_both("links_lead_where_they_led_without_data", None, links_without_data);
        trials.add_for_both("hashes_of_real_files_are_verified", None, hashes_of_real_files);
        let unshare = ["--user", "--map-root-user", "--mount", "true"];
        let no_namespaces = (!trials::succeeds("unshare", &unshare)).then_some("user namespaces");
        trials.add_for_both("output_that_no_path_leads_to", no_namespaces, hidden_output);
        Ok(())
    })
}

fn text(error: impl std::fmt::Display) -> Complaint {
    error.to_string()
}

/// Records a script in the place's working directory, and empties the directory.
fn recorded(
    stage: &Stage,
    place: &Place,
    options: &[&str],
    script: &str,
) -> Result<PathBuf, Complaint> {
    let trace = place.trace("options.rnt");
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--force", "--output"]).arg(&trace).args(options);
    place.run(record.args(["--", "sh", "-c", script]))?.success("record")?;
    place.clear()?;
    Ok(trace)
}

fn run(stage: &Stage, place: &Place, words: &[&str], trace: &Path) -> Result<Outcome, Complaint> {
    let mut command = place.command(&stage.reenact);
    place.run(command.arg(words[0]).arg(trace).args(&words[1..]))
}

/// Replays a trace, which must match the recording; returns the JSON result.
fn replayed(
    stage: &Stage,
    place: &Place,
    options: &[&str],
    trace: &Path,
) -> Result<Value, Complaint> {
    let words = [&["replay", "--json"], options].concat();
    let outcome = run(stage, place, &words, trace)?;
    let said: Value = serde_json::from_str(outcome.text().trim())
        .map_err(|error| format!("no result ({error}): {}", outcome.errors()))?;
    ensure!(outcome.status.success() && said["ok"] == true, "{}\n{said}", outcome.errors());
    Ok(said)
}

/// Makes a directory owned by the place's user.
fn directory(place: &Place, name: &str) -> Result<PathBuf, Complaint> {
    let path = place.path(name);
    fs::create_dir(&path).map_err(text)?;
    place.give(&path)?;
    Ok(path)
}

/// Returns the path of a file of the working directory below a root.
fn inside(root: &Path, place: &Place, name: &str) -> PathBuf {
    root.join(place.work().strip_prefix("/").unwrap_or(&place.work())).join(name)
}

fn bind(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    fs::create_dir(place.work().join("data")).map_err(text)?;
    place.give(&place.work().join("data"))?;
    let trace = recorded(stage, &place, &[], "echo bound > data/file; echo not > other")?;
    let (root, host) = (directory(&place, "root")?, directory(&place, "host")?);
    let bind = format!("{}={}", host.display(), place.work().join("data").display());
    let root_text = root.display().to_string();
    let options = ["--bind", &bind, "--keep", "--root", &root_text];
    replayed(stage, &place, &options, &trace)?;
    ensure!(fs::read(host.join("file")).map_err(text)? == b"bound\n", "not in what was bound");
    let other = inside(&root, &place, "other");
    ensure!(fs::read(&other).map_err(text)? == b"not\n", "not in the root");
    let below = inside(&root, &place, "data/file");
    ensure!(!below.exists(), "the root has {}", below.display());
    Ok(())
}

/// An image built from the trace has the data that was read, and can replace it in a replay.
fn image_from_a_directory(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("input", b"input\n")?;
    let trace = recorded(stage, &place, &[], "read line < input; echo $line > output")?;
    let image = directory(&place, "image")?;
    let (image_text, root) = (image.display().to_string(), directory(&place, "root")?);
    let built = run(stage, &place, &["image", &image_text], &trace)?;
    built.success("image")?;
    let root_text = root.display().to_string();
    let options = ["--image", &image_text, "--keep", "--root", &root_text];
    replayed(stage, &place, &options, &trace)?;
    let output = fs::read(inside(&root, &place, "output")).map_err(text)?;
    ensure!(output == b"input\n", "it wrote {}", output.escape_ascii());
    // The replay reads the image: changed bytes are noticed.
    fs::write(inside(&image, &place, "input"), b"other\n").map_err(text)?;
    let found = run(stage, &place, &["replay", "--image", &image_text], &trace)?;
    ensure!(found.status.code() == Some(4), "other bytes are not found: {}", found.text());
    // The image itself is not modified.
    let kept = fs::read(inside(&image, &place, "input")).map_err(text)?;
    ensure!(kept == b"other\n" && !inside(&image, &place, "output").exists(), "the image changed");
    Ok(())
}

fn image_that_is_there(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("input", b"input\n")?;
    let trace = recorded(stage, &place, &[], "read line < input; echo $line >> input")?;
    let root = directory(&place, "root")?.display().to_string();
    run(stage, &place, &["image", &root], &trace)?.success("image")?;
    replayed(stage, &place, &["--image", "none", "--root", &root], &trace)?;
    let input = fs::read(inside(Path::new(&root), &place, "input")).map_err(text)?;
    ensure!(input == b"input\ninput\n", "it holds {}", input.escape_ascii());
    Ok(())
}

/// Size of the filled files.
const LEN: usize = 100_000;

fn fill(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("before", &[b'b'; LEN])?;
    let script = "head -c 10 before > /dev/null; head -c 100000 before > after";
    let trace = recorded(stage, &place, &["--data", "none"], script)?;
    let root = directory(&place, "root")?;
    let root_text = root.display().to_string();
    let options = ["--fill", "pattern:a1b2", "--root", &root_text, "--keep"];
    let said = replayed(stage, &place, &options, &trace)?;
    for name in ["before", "after"] {
        let bytes = fs::read(inside(&root, &place, name)).map_err(text)?;
        let filled = bytes.chunks(2).all(|pair| pair == [0xa1, 0xb2]);
        ensure!(
            bytes.len() == LEN && filled,
            "{name} holds {:?}...",
            &bytes[..20.min(bytes.len())]
        );
    }
    ensure!(said["unverified"].as_u64() > Some(0), "nothing is told as not verifiable: {said}");
    let image = directory(&place, "image")?;
    let image_text = image.display().to_string();
    run(stage, &place, &["image", "--fill", "random", &image_text], &trace)?.success("image")?;
    let bytes = fs::read(inside(&image, &place, "before")).map_err(text)?;
    let zeros = bytes.iter().filter(|byte| **byte == 0).count();
    ensure!(bytes.len() == LEN && zeros < LEN / 100, "{zeros} zeros in {} bytes", bytes.len());
    Ok(())
}

fn until(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = recorded(stage, &place, &[], "echo 1 > a; echo 2 > b; rm a; echo 3 > c")?;
    let shown = run(stage, &place, &["show", "--json", "--call", "unlink,unlinkat"], &trace)?;
    let seqs: Vec<u64> = shown
        .text()
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok()?["seq"].as_u64())
        .collect();
    let [.., unlink] = seqs[..] else { return Err(format!("no unlink in {}", shown.text())) };
    for (seq, there) in [(unlink - 1, ["a", "b"]), (unlink, ["b", "b"])] {
        let root = directory(&place, &format!("root-{seq}"))?;
        let (root_text, seq) = (root.display().to_string(), seq.to_string());
        let said = replayed(stage, &place, &["--until", &seq, "--root", &root_text], &trace)?;
        let work = inside(&root, &place, "");
        let mut found: Vec<String> = fs::read_dir(&work)
            .map_err(|error| format!("{}: {error}", work.display()))?
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        found.sort();
        let mut expected = there.to_vec();
        expected.dedup();
        ensure!(found == expected, "at {seq} there are {found:?}, not {expected:?}");
        ensure!(said["final_state"].is_null(), "the end was compared: {said}");
    }
    Ok(())
}

fn repeat_cold(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("input", b"input\n")?;
    let trace = recorded(stage, &place, &[], "read line < input; mkdir d; echo $line > d/f")?;
    let root = directory(&place, "root")?;
    let root_text = root.display().to_string();
    let options = ["--repeat", "3", "--cold", "--root", &root_text];
    let said = replayed(stage, &place, &options, &trace)?;
    ensure!(said["runs"].as_array().map(Vec::len) == Some(3), "{}", said["runs"]);
    let order = |a: &str, b: &str| said[a].as_f64() <= said[b].as_f64();
    let spread = order("elapsed_min_s", "elapsed_median_s")
        && order("elapsed_median_s", "elapsed_max_s")
        && said["elapsed_min_s"].as_f64() > Some(0.0);
    ensure!(spread, "no spread: {said}");
    let told = run(stage, &place, &["replay", "--repeat", "2"], &trace)?.success("replay")?;
    ensure!(told.text().contains("2 replays: median"), "{}", told.text());
    Ok(())
}

/// Sleeps take time or not, as wanted; who waits for a child that sleeps does not wait for the outside.
fn outside(stage: &Stage, who: Who) -> Result<(), Complaint> {
    const SLEPT_NS: u64 = 600_000_000;
    let place = Place::new(stage, who)?;
    let script = "sleep 0.3; echo first > f; (sleep 0.3; echo late) | cat >> f";
    let trace = recorded(stage, &place, &[], script)?;
    for (words, counts) in [
        (&["--stimuli", "asap"][..], false),
        (&["--stimuli", "recorded"], true),
        (&["--stimuli", "recorded", "--pace", "think"], true),
    ] {
        let outcome = run(stage, &place, &[&["replay", "--json"], words].concat(), &trace)?;
        let json: Value = serde_json::from_str(&outcome.success("replay")?.text()).map_err(text)?;
        let number = |key: &str| json[key].as_u64().unwrap_or(0);
        let recorded_ns = number("outside_recorded_ns");
        let whole_ns = json["recorded_s"].as_f64().unwrap_or(0.0) * 1e9;
        ensure!(recorded_ns >= SLEPT_NS && recorded_ns as f64 <= whole_ns, "{words:?}: {json}");
        ensure!(number("outside_ns") == if counts { recorded_ns } else { 0 }, "{words:?}: {json}");
        // It has slept at least for so long.
        let took_s = json["calls_s"].as_f64().unwrap_or(0.0);
        ensure!(!counts || took_s * 1e9 >= SLEPT_NS as f64, "{words:?}: {json}");
    }
    let told = run(stage, &place, &["replay"], &trace)?.success("replay")?;
    ensure!(told.text().contains("waits for the outside"), "{}", told.text());
    Ok(())
}

fn what_is_not_empty(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = recorded(stage, &place, &[], "echo new > file")?;
    let root = directory(&place, "root")?;
    fs::write(root.join("mine"), b"mine").map_err(text)?;
    place.give(&root.join("mine"))?;
    let root_text = root.display().to_string();
    let refused = run(stage, &place, &["replay", "--root", &root_text], &trace)?;
    ensure!(refused.status.code() == Some(USAGE), "not refused: {}", refused.status);
    ensure!(refused.errors().contains("--overwrite"), "no remedy: {}", refused.errors());
    replayed(stage, &place, &["--overwrite", "--root", &root_text], &trace)?;
    let file = fs::read(inside(&root, &place, "file")).map_err(text)?;
    ensure!(file == b"new\n", "it holds {}", file.escape_ascii());
    Ok(())
}

/// Whatever mode the recording gives the root, the directory around it stays closed.
fn fresh_root(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = recorded(stage, &place, &[], "echo secret > file; chmod 777 file .")?;
    let said = replayed(stage, &place, &["--keep"], &trace)?;
    let root = PathBuf::from(said["root"].as_str().ok_or("no root is told")?);
    let around = root.parent().ok_or("a root without a parent")?;
    let metadata = fs::metadata(around).map_err(text)?;
    let (mode, owner) = (metadata.permissions().mode(), metadata.uid());
    let mine = fs::metadata(place.work()).map_err(text)?.uid();
    let there = inside(&root, &place, "file").exists();
    let _ = fs::remove_dir_all(around);
    ensure!(there, "the file is not in {}", root.display());
    ensure!(mode & 0o077 == 0 && owner == mine, "mode {mode:o}, owner {owner}");
    Ok(())
}

fn max_size(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let script = "head -c 100000000 /dev/zero > large; cat large > again";
    let trace = recorded(stage, &place, &[], script)?;
    // Space freed by other programs counts as room, so only one of several tries must stay within
    // bounds. `sync` makes sure that space freed by earlier tries is available.
    let mut tries = Vec::new();
    for number in 0..TRIES {
        // SAFETY: `sync` takes no arguments and touches no memory of ours.
        unsafe { libc::sync() };
        let root = directory(&place, &format!("root{number}"))?;
        let root_text = root.display().to_string();
        let options = ["replay", "--max-size", "20M", "--root", &root_text];
        let refused = run(stage, &place, &options, &trace)?;
        let taken = fs::metadata(inside(&root, &place, "large")).map_err(text)?.blocks() * 512;
        if refused.status.code() == Some(FAILED) && taken <= 60_000_000 {
            ensure!(refused.errors().contains("--max-size"), "it said {}", refused.errors());
            tries.clear();
            break;
        }
        tries.push((refused.status, taken));
    }
    ensure!(tries.is_empty(), "ends, and bytes that were written: {tries:?}");
    replayed(stage, &place, &["--max-size", "1G"], &trace)?;
    Ok(())
}

fn unknown_bytes(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("grown", &[b'g'; 10_000])?;
    let trace = recorded(stage, &place, &[], "echo more >> grown")?;
    let said = replayed(stage, &place, &[], &trace)?;
    let grown = place.work().join("grown").display().to_string();
    let unknown = &said["final_state"]["unknown"];
    ensure!(unknown[0]["path"] == grown, "{unknown}");
    ensure!(unknown[0]["bytes"] == said["unknown_bytes"], "{said}");
    let told = run(stage, &place, &["replay"], &trace)?.success("replay")?;
    ensure!(told.text().contains(&format!(" in {grown}")), "{}", told.text());
    ensure!(told.text().contains("jailed by "), "{}", told.text());
    Ok(())
}

fn refused(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = recorded(stage, &place, &[], "echo 1 > a")?;
    for (options, why) in
        [(["--until", "1000000"], "the trace has"), (["--speed", "2"], "--pace recorded")]
    {
        let outcome = run(stage, &place, &[&["replay"], &options[..]].concat(), &trace)?;
        let said = outcome.errors();
        ensure!(outcome.status.code() == Some(USAGE) && said.contains(why), "{options:?}: {said}");
    }
    Ok(())
}

fn documented(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = recorded(stage, &place, &[], "echo 1 > a")?;
    let paces =
        ["recorded", "think"].map(|pace| replayed(stage, &place, &["--pace", pace], &trace));
    let page = fs::read_to_string(stage::repository().join("docs/json.md")).map_err(text)?;
    let section = page.split("\n## ").find(|section| section.starts_with("Replays:"));
    let section = section.ok_or("no section about replays")?;
    for said in paces {
        let said = said?;
        let keys = said.as_object().ok_or("no object")?.keys();
        let missing: Vec<_> = keys.filter(|key| !section.contains(&format!("`{key}`"))).collect();
        ensure!(missing.is_empty(), "not in docs/json.md: {missing:?}");
    }
    Ok(())
}

fn cut_off(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = recorded(stage, &place, &[], "echo 1 > a")?;
    let bytes = fs::read(&trace).map_err(text)?;
    fs::write(&trace, &bytes[..bytes.len() - 100]).map_err(text)?;
    let image = directory(&place, "image")?.display().to_string();
    for words in [&["replay"][..], &["image", &image], &["compare", "."]] {
        let said = run(stage, &place, words, &trace)?.errors();
        ensure!(said.contains("cut off"), "{words:?} said {said}");
    }
    Ok(())
}

fn interrupted(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = recorded(stage, &place, &[], "echo 1 > a; sleep 0.2; echo 2 > b")?;
    let around = directory(&place, "around")?;
    let mut command = place.command(&stage.reenact);
    command.arg("replay").arg(&trace).args(["--pace", "recorded", "--speed", "0.001"]);
    let mut child = command.env("TMPDIR", &around).spawn().map_err(text)?;
    let left = || fs::read_dir(&around).map_or(0, Iterator::count);
    while left() == 0 {
        ensure!(child.try_wait().map_err(text)?.is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    // SAFETY: kill takes plain numbers. The child is not reaped, so its pid is not reused.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    let status = child.wait().map_err(text)?;
    ensure!(status.signal() == Some(libc::SIGTERM), "it ended with {status}");
    ensure!(left() == 0, "{} directories are left", left());
    Ok(())
}

/// Data that was read and written but not stored cannot be verified.
fn hashes_of_filler(stage: &Stage, who: Who) -> Result<(), Complaint> {
    for options in [["--data", "hash"], ["--max-data", "100"]] {
        let place = Place::new(stage, who)?;
        place.write("input", &[b'i'; LEN])?;
        let script = "cat input > copy; cat copy | wc -c > count; mv input moved; cat moved > copy";
        let trace = recorded(stage, &place, &options, script)?;
        let said = replayed(stage, &place, &[], &trace)?;
        ensure!(said["unverified"].as_u64() > Some(2), "{options:?}: {said}");
    }
    Ok(())
}

/// For real files, a hash shows whether they are the same.
fn hashes_of_real_files(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("input", &[b'i'; LEN])?;
    let trace = recorded(stage, &place, &["--data", "hash"], "cat input > /dev/null")?;
    let image = directory(&place, "image")?;
    let image_text = image.display().to_string();
    run(stage, &place, &["image", "--fill", "pattern:69", &image_text], &trace)?
        .success("image")?;
    // Libraries are filler in this image, and always mismatch.
    let mismatches = || -> Result<Option<u64>, Complaint> {
        let words = ["replay", "--json", "--image", &image_text];
        let outcome = run(stage, &place, &words, &trace)?;
        let said: Value = serde_json::from_str(outcome.text().trim()).map_err(text)?;
        Ok(said["mismatches"]["data"].as_u64())
    };
    let before = mismatches()?;
    let mut other = [b'i'; LEN];
    other[LEN - 1] = b'j';
    fs::write(inside(&image, &place, "input"), other).map_err(text)?;
    let after = mismatches()?;
    ensure!(after == before.map(|count| count + 1), "{before:?} mismatches became {after:?}");
    Ok(())
}

/// The target of a link is a path, and stored like all paths.
fn links_without_data(stage: &Stage, who: Who) -> Result<(), Complaint> {
    for data in ["hash", "none"] {
        let place = Place::new(stage, who)?;
        std::os::unix::fs::symlink("a/target", place.work().join("link")).map_err(text)?;
        let trace = recorded(stage, &place, &["--data", data], "readlink link")?;
        replayed(stage, &place, &[], &trace)?;
        let image = directory(&place, "image")?;
        let image_text = image.display().to_string();
        run(stage, &place, &["image", &image_text], &trace)?.success("image")?;
        let target = fs::read_link(inside(&image, &place, "link")).map_err(text)?;
        ensure!(target == Path::new("a/target"), "--data {data}: it leads to {}", target.display());
    }
    Ok(())
}

/// Standard output is a file hidden by a mount, so that its path leads nowhere, as that of a file
/// outside a changed root.
fn hidden_output(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = place.trace("hidden.rnt");
    let script = "mkdir hidden; exec > hidden/log; mount -t tmpfs none hidden; \
                  exec \"$0\" record --quiet --output \"$1\" -- sh -c 'echo hello; echo more > file'";
    let mut record = place.command("unshare");
    record.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    place.run(record.arg(&stage.reenact).arg(&trace))?.success("record")?;
    let log = fs::read_to_string(place.work().join("hidden/log")).map_err(text)?;
    ensure!(log == "hello\n", "the program wrote {log:?}");
    place.clear()?;
    replayed(stage, &place, &[], &trace).map(drop)
}
