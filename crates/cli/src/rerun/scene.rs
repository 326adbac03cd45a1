//! Where in the recording a re-execution ended: the thread, and its calls before.

use model::Conditions;
use render::escape::escaped;
use render::json::Json;
use render::lines::{self, Look};
use render::text::Style;
use rerun::Divergence;
use stats::chains::{Chains, Spelled};
use trace::Trace;
use trace::event::EventKind;

/// Number of calls before the one that differs which are shown.
const BEFORE: usize = 6;

/// The thread that left the recording.
#[derive(Default)]
pub struct Scene {
    /// Its id, as it was recorded.
    pub tid: Option<u32>,
    /// Its last calls before, with their numbers.
    before: Vec<(u64, String)>,
    /// From where the call was made that differs, if callers were recorded: the innermost one first.
    callers: Vec<String>,
}

impl Scene {
    /// Of a divergence.
    pub fn of(trace: &Trace, found: &Divergence) -> Scene {
        let mut scene = Scene { tid: tid_of(trace, found.thread), ..Scene::default() };
        let mut chains = Chains::default();
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
        let (reason, likely) = (&found.reason, found.likely());
        let mut text =
            format!("the re-execution differs{at}{who}: {reason}\nlikely reason: {likely}");
        if !self.before.is_empty() {
            text.push_str("\nthe calls before:");
            self.before.iter().for_each(|(_, line)| text.push_str(&format!("\n  {line}")));
        }
        if !self.callers.is_empty() {
            text.push_str("\nwhen it was recorded, it was called from:");
            self.callers.iter().for_each(|caller| text.push_str(&format!("\n  > {caller}")));
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
        json.key("stack").array(|json| self.callers.iter().for_each(|caller| json.str(caller)));
    }
}

/// A place in the program in a line.
fn spelled(of: &Spelled) -> String {
    let function = escaped(of.function.as_deref().unwrap_or("?").as_bytes());
    let line = of.line.iter().map(|line| format!(" at {}", escaped(line.as_bytes())));
    format!("{function}{} [{}]", line.collect::<String>(), escaped(&of.place))
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
