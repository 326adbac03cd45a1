//! Where in the recording a re-execution ended: the thread, and its calls before.

use model::Conditions;
use render::escape::escaped;
use render::json::Json;
use render::lines::{self, Look};
use render::text::Style;
use rerun::{Divergence, Reason};
use stats::chains::Chains;
use trace::Trace;
use trace::event::{EventKind, Preamble};

use super::standing::{Standing, of_libraries, spelled};

/// Number of calls before the one that differs which are shown.
const BEFORE: usize = 6;
/// What is told where nothing was found that may be why.
const NONE_FOUND: &str = "none was found";

/// The thread that left the recording.
#[derive(Default)]
pub struct Scene {
    /// Its id, as it was recorded.
    pub tid: Option<u32>,
    /// Its last calls before, with their numbers.
    before: Vec<(u64, String)>,
    /// From where the call was made that differs, if callers were recorded: the innermost one first.
    callers: Vec<String>,
    /// Where the thread stood that left the recording, and its callers.
    stack: Vec<String>,
    /// Likely causes for which there is evidence.
    pub likely: Option<String>,
}

/// What a machine is.
#[derive(Default)]
pub struct Machine {
    /// Its processor.
    pub cpu: String,
    /// Its kernel.
    pub kernel: String,
}

impl Scene {
    /// Of a divergence.
    pub fn of(trace: &Trace, found: &Divergence, here: &Machine) -> Scene {
        let mut scene = Scene { tid: tid_of(trace, found.thread), ..Scene::default() };
        let mut chains = Chains::default();
        let mut evidence = found.evidence.clone();
        evidence.extend(of_machine(trace.preamble(), here, found));
        if let Some(stood) = &found.stood {
            let standing = Standing::of(stood, &mut chains);
            if found.reason.is_of_program() {
                evidence.extend(standing.untold(stood, &mut chains));
                if evidence.is_empty() {
                    evidence.extend(of_libraries(stood));
                }
            }
            scene.stack = standing.lines();
        }
        scene.likely = (!evidence.is_empty()).then(|| evidence.join("; "));
        let style = Style { string_limit: 32, data: true, verbose: false };
        let look = Look { style, hex: false, colour: false, seq: true, names: false };
        let _ = model::walk(trace, &Conditions::default(), &mut |moment, _, contents| {
            chains.add(moment, contents);
            let Some(seq) = moment.seq else { return Ok(()) };
            let is_it = Some(seq) == found.seq && moment.event.thread == found.thread;
            // What was recorded later, the re-execution has not come to.
            if is_it || seq >= found.position {
                let chain = if is_it { chains.of(moment, contents) } else { None };
                let spell = |(at, site): (usize, &_)| spelled(&chains.spell(*site, at > 0));
                scene.callers = chain.iter().flatten().enumerate().map(spell).collect();
                return Err(());
            }
            if moment.event.thread == found.thread
                && let EventKind::Call(_) = moment.event.kind
            {
                let mut line = String::new();
                lines::event(&mut line, moment, contents, look);
                scene.before.push((seq, line.trim_end().to_string()));
                if scene.before.len() > BEFORE {
                    scene.before.remove(0);
                }
            }
            Ok(())
        });
        scene
    }

    /// What a divergence is, in words.
    pub fn told(&self, found: &Divergence) -> String {
        let last = self.before.last().map(|(seq, _)| *seq);
        let at = match (found.seq, last) {
            (Some(seq), _) => format!(" at call {seq}"),
            (None, Some(last)) => format!(" after call {last}"),
            (None, None) => String::new(),
        };
        let who = self.tid.map(|tid| format!(", thread {tid}")).unwrap_or_default();
        let (reason, likely) = (&found.reason, self.likely.as_deref().unwrap_or(NONE_FOUND));
        let mut text =
            format!("the re-execution differs{at}{who}: {reason}\nlikely reason: {likely}");
        if !self.before.is_empty() {
            text.push_str("\nthe calls before:");
            self.before.iter().for_each(|(_, line)| text.push_str(&format!("\n  {line}")));
        }
        let standing = match found.reason {
            Reason::Stuck { .. } => "where its thread made its last call, and its callers:",
            _ => "where its thread is now, and its callers:",
        };
        let stacks =
            [(&self.stack, standing), (&self.callers, "when it was recorded, it was called from:")];
        for (stack, title) in stacks.iter().filter(|(stack, _)| !stack.is_empty()) {
            text.push_str(&format!("\n{title}"));
            stack.iter().for_each(|caller| text.push_str(&format!("\n  > {caller}")));
        }
        text
    }

    /// Writes it into an object.
    pub fn json(&self, json: &mut Json<'_>) {
        json.key("tid").optional_uint(self.tid.map(u64::from));
        json.key("before").array(|json| {
            for (seq, line) in &self.before {
                json.object(|json| {
                    json.key("seq").uint(*seq);
                    json.key("text").str(line.trim_start());
                });
            }
        });
        for (key, stack) in [("stack", &self.stack), ("recorded_stack", &self.callers)] {
            json.key(key).array(|json| stack.iter().for_each(|caller| json.str(caller)));
        }
    }
}

/// What is different about this machine, where that may be why.
fn of_machine(recorded: &Preamble, here: &Machine, found: &Divergence) -> Vec<String> {
    let mut all = Vec::new();
    let differ = |was: &str, is: &str| !was.is_empty() && !is.is_empty() && was != is;
    if differ(&recorded.cpu, &here.cpu) {
        let [was, is] = [&recorded.cpu, &here.cpu].map(|cpu| escaped(cpu.as_bytes()));
        all.push(format!("the processor is another one ({is}, not {was})"));
    }
    if found.reason.is_of_kernel() && differ(&recorded.kernel, &here.kernel) {
        let [was, is] = [&recorded.kernel, &here.kernel].map(|name| escaped(name.as_bytes()));
        all.push(format!("the kernel is another one ({is}, not {was})"));
    }
    let version = env!("CARGO_PKG_VERSION");
    if found.reason.is_of_kernel() && differ(&recorded.recorder_version, version) {
        let was = escaped(recorded.recorder_version.as_bytes());
        all.push(format!("it was recorded by another version of reenact ({was})"));
    }
    all
}

/// The recorded id of a thread.
pub fn tid_of(trace: &Trace, thread: u32) -> Option<u32> {
    let mut found = None;
    let _ = model::walk(trace, &Conditions::default(), &mut |moment, _, _| {
        if moment.event.thread == thread
            && let EventKind::Start { tid, .. } = moment.event.kind
        {
            found = Some(tid);
            return Err(());
        }
        Ok(())
    });
    found
}
