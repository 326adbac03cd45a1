//! Descriptors and directories in the model, compared with /proc at every recorded exec.

use std::path::Path;
use std::process::{Command, Stdio};

use model::{Contents, World};
use trace::Trace;
use trace::event::{Content, EventKind, OpenFd};

const SCRIPT: &str = "\
cd /; cd usr/../etc
for i in 1 2 3 4 5; do cat passwd | sort | uniq -c | wc -l & done; wait
exec 7<hosts; exec 8<&7 9>/dev/null
(cd /usr && ls >&9)
exec 7<&-; /bin/true
sh -c 'exec 5<passwd; cat <&5; (exec 6>&5; /bin/true 5<&-)'";

struct Stored<'a>(&'a Trace);

impl Contents for Stored<'_> {
    fn each(
        &mut self,
        content: &Content,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), String> {
        take(&self.0.content(content).map_err(|error| error.to_string())?);
        Ok(())
    }
}

fn record(directory: &Path) -> Trace {
    let file = directory.join("script.rnt");
    let status = Command::new(env!("CARGO_BIN_EXE_reenact"))
        .args(["record", "--quiet", "-o"])
        .arg(&file)
        .args(["--", "bash", "-c", SCRIPT])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    Trace::open(&file).unwrap()
}

/// Pipes have other names in the model.
fn name(path: &[u8]) -> String {
    let path = String::from_utf8_lossy(path);
    if path.starts_with("pipe:") { "pipe".into() } else { path.into_owned() }
}

#[test]
fn the_model_agrees_with_proc_at_every_exec() {
    let directory = tempfile::tempdir().unwrap();
    let trace = record(directory.path());
    let mut world = World::new();
    let mut compared = 0;
    for next in trace.events() {
        let event = next.unwrap().event;
        if let EventKind::State(state) = &event.kind
            && let Some(thread) = thread_of(&world, state.process)
        {
            let table = world.descriptors(thread).unwrap();
            let kept = table.iter().filter(|(_, entry)| !entry.close_on_exec);
            let ours: Vec<_> =
                kept.map(|(fd, entry)| (fd, name(&entry.description.path))).collect();
            let told: Vec<_> =
                state.fds.iter().map(|OpenFd { fd, target, .. }| (*fd, name(target))).collect();
            assert_eq!(ours, told, "of {:?}", String::from_utf8_lossy(&state.exe));
            assert_eq!(world.cwd(thread), state.cwd);
            compared += 1;
        }
        world.apply(&event, &mut Stored(&trace));
    }
    assert!(compared >= 20, "only {compared} programs were started");
}

fn thread_of(world: &World, process: u32) -> Option<u32> {
    (1..1000).find(|number| world.thread(*number).is_some_and(|t| t.process == process))
}
