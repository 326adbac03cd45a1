//! What a re-execution has found, for people and programs.

use std::io::{self, Write};
use std::time::Duration;

use render::amounts::{counted, show_count, show_size, show_time};
use render::json::text;
use replay::Outcome;
use replay::outcome::Stopped;
use rerun::{Counts, Ending, NotShown, Times};
use trace::Trace;

use super::follower::Found;
use super::scene::{Machine, Scene, tid_of};
use crate::failure::Failure;
use crate::replay::report::latencies_json;

/// Causes of mismatches that are told, and paths that differ at the end.
const CAUSES_SHOWN: usize = 5;
const DIFFERENCES_SHOWN: usize = 20;

/// What came of it, apart from files.
pub struct Done {
    /// How it ended.
    pub ending: Ending,
    /// Calls that were answered.
    pub calls: u64,
    /// Processor and kernel of this machine.
    pub here: Machine,
    /// What was compared.
    pub counts: Counts,
    /// Bytes of output that are not shown.
    pub not_shown: NotShown,
    /// The processor is another one.
    pub other_processor: bool,
    /// What it took, put together.
    pub times: Times,
    /// What it really took.
    pub wall: Duration,
    /// CPU time of calls on files.
    pub system_ns: u64,
    /// The exit code of the client, if there was one that has ended.
    pub client: Option<i32>,
    /// A client was there.
    pub has_client: bool,
}

impl Done {
    /// What is told if all is well.
    pub fn told(&self) -> String {
        let Counts { compared, not_compared, ends_unseen } = self.counts;
        let mut text = format!("{}, all as recorded", counted(self.calls, "call", "calls"));
        if compared > 0 {
            text.push_str(&format!(", with {} that went in", show_size(compared)));
        }
        if self.not_shown.elsewhere > 0 {
            let size = show_size(self.not_shown.elsewhere);
            text.push_str(&format!(
                "; {size} went to others than standard output and error, and are not shown"
            ));
        }
        if self.not_shown.copied > 0 {
            let size = show_size(self.not_shown.copied);
            text.push_str(&format!(
                "; {size} of its output were copied by the kernel, and are not shown"
            ));
        }
        if not_compared > 0 {
            text.push_str(&format!(
                "; {} not whole in the trace",
                counted(not_compared, "buffer is", "buffers are")
            ));
        }
        if ends_unseen > 0 {
            let processes = counted(ends_unseen, "process", "processes");
            text.push_str(&format!("; how {processes} died could not be seen"));
        }
        match (self.has_client, self.client) {
            (true, Some(0)) => text.push_str("; the client ended well"),
            (true, Some(code)) => text.push_str(&format!("; the client ended with code {code}")),
            (true, None) => text.push_str("; the client had not ended"),
            (false, _) => {}
        }
        if self.other_processor {
            text.push_str("; the processor has other features than the recorded one");
        }
        text
    }

    /// What it took, in words.
    pub fn times_told(&self) -> String {
        let Times { elapsed_ns, user_ns, files_ns, outside_recorded_ns, outside_ns, .. } =
            self.times;
        let [elapsed, user, files, outside] =
            [elapsed_ns, user_ns, files_ns, outside_recorded_ns].map(show_time);
        let counted = if outside_ns == 0 && outside_recorded_ns > 0 { ", not counted" } else { "" };
        let network = match self.times.network_calls {
            0 => String::new(),
            calls => format!(", {calls} calls on sockets {}", show_time(self.times.network_ns)),
        };
        format!(
            "it takes {elapsed}: the program's CPU {user}, {} calls on files {files}{network}; waits for \
             the outside {outside}{counted}",
            self.times.files_calls
        )
    }

    /// Prints it as JSON.
    pub fn json(
        &self,
        trace: &Trace,
        stop_at: Option<u64>,
        found: Option<&Found>,
    ) -> Result<(), Failure> {
        let line = text(|json| {
            json.object(|json| {
                let diverged = match &self.ending {
                    Ending::Diverged(diverged) => Some(diverged),
                    _ => None,
                };
                let failed = match &self.ending {
                    Ending::Failed(text) => Some(text.as_str()),
                    _ => None,
                };
                let Times {
                    elapsed_ns,
                    user_ns,
                    files_ns,
                    files_calls,
                    network_ns,
                    network_calls,
                    outside_recorded_ns,
                    outside_ns,
                } = self.times;
                json.key("calls").uint(self.calls);
                json.key("compared_bytes").uint(self.counts.compared);
                json.key("ends_unseen").uint(self.counts.ends_unseen);
                json.key("diverged").bool(diverged.is_some());
                match diverged {
                    None => json.key("divergence").null(),
                    Some(found) => json.key("divergence").object(|json| {
                        match found.seq {
                            Some(seq) => json.key("seq").uint(seq),
                            None => json.key("seq").null(),
                        }
                        json.key("what").str(&found.reason.to_string());
                        let scene = Scene::of(trace, found, &self.here);
                        json.key("likely").optional_str(scene.likely.as_deref());
                        scene.json(json);
                    }),
                }
                match &self.ending {
                    Ending::Stopped { call, thread } => json.key("stopped").object(|json| {
                        json.key("seq").optional_uint(stop_at);
                        json.key("tid").optional_uint(tid_of(trace, *thread).map(u64::from));
                        json.key("call").str(call);
                    }),
                    _ => json.key("stopped").null(),
                }
                json.key("failed").optional_str(failed);
                json.key("elapsed_ns").uint(elapsed_ns);
                json.key("wall_ns").uint(self.wall.as_nanos() as u64);
                json.key("user_ns").uint(user_ns);
                json.key("system_ns").uint(self.system_ns);
                json.key("files_ns").uint(files_ns);
                json.key("files_calls").uint(files_calls);
                json.key("network_ns").uint(network_ns);
                json.key("network_calls").uint(network_calls);
                match self.client {
                    Some(code) => json.key("client_code").int(code.into()),
                    None => json.key("client_code").null(),
                }
                json.key("outside_ns").uint(outside_ns);
                json.key("outside_recorded_ns").uint(outside_recorded_ns);
                match found {
                    None => json.key("files").null(),
                    Some(Found { findings, .. }) => json.key("files").object(|json| {
                        let outcome = &findings.outcome;
                        json.key("replayed").uint(outcome.replayed);
                        json.key("simulated").uint(outcome.simulated);
                        json.key("verified").uint(outcome.verified);
                        json.key("unverified").uint(outcome.unverified);
                        json.key("mismatches").uint(outcome.mismatches.count());
                        let state = findings.final_state.as_ref();
                        let verdict = state.map(|state| state.verdict().name());
                        json.key("final_state").optional_str(verdict);
                        json.key("different").uint(state.map_or(0, |state| state.different));
                        let differences = state.iter().flat_map(|state| &state.differences);
                        json.key("differences").array(|json| {
                            for difference in differences.take(DIFFERENCES_SHOWN) {
                                json.object(|json| {
                                    json.key("path").bytes(&difference.path);
                                    json.key("what").str(&difference.what);
                                    json.key("expected").str(&difference.expected);
                                    json.key("found").str(&difference.found);
                                });
                            }
                        });
                        json.key("stopped").optional_str(stopped(outcome).as_deref());
                        latencies_json(json, outcome);
                        json.key("image_s").float(findings.image_s);
                    }),
                }
                let kept = found.and_then(|found| found.kept.as_ref());
                let kept = kept.map(|path| path.to_string_lossy());
                json.key("root").optional_str(kept.as_deref());
                let is_same = matches!(self.ending, Ending::Same | Ending::Stopped { .. });
                let agrees = found.is_none_or(|found| found.findings.agrees());
                json.key("ok").bool(is_same && agrees);
            });
        });
        let mut out = io::stdout().lock();
        writeln!(out, "{line}")?;
        Ok(out.flush()?)
    }
}

/// Why the calls on files were not all made.
fn stopped(outcome: &Outcome) -> Option<String> {
    match outcome.stopped.as_ref()? {
        Stopped::Mismatch => None,
        Stopped::Stuck(_) => {
            Some("the calls on files are stuck, nothing moves any more".to_string())
        }
        Stopped::Full(what) | Stopped::Unreadable(what) | Stopped::Failed(what) => {
            Some(format!("the calls on files were stopped: {what}"))
        }
    }
}

impl Found {
    /// What is told of the files.
    pub fn told(&self) -> String {
        let outcome = &self.findings.outcome;
        let kept = self.kept.as_ref().map(|path| format!("; they are in {}", path.display()));
        format!(
            "files: {} made, {} verified, {} not verifiable{}",
            counted(outcome.replayed, "call", "calls"),
            show_count(outcome.verified),
            show_count(outcome.unverified),
            kept.unwrap_or_default()
        )
    }

    /// Calls on files wait for each other, or for what never comes.
    pub fn is_stuck(&self) -> bool {
        matches!(self.findings.outcome.stopped, Some(Stopped::Stuck(_)))
    }

    /// What did not match.
    pub fn failure(&self) -> Option<Failure> {
        if self.findings.agrees() {
            return None;
        }
        let outcome = &self.findings.outcome;
        if let Some(why) = stopped(outcome) {
            return Some(match outcome.stopped {
                Some(Stopped::Stuck(_)) => {
                    let lines = self.waits.iter().map(|line| format!("\n  {line}"));
                    Failure::Stuck(why + ":" + &lines.collect::<String>())
                }
                _ => Failure::Failed(why),
            });
        }
        let mut text = format!(
            "{} on files did not match",
            counted(outcome.mismatches.count(), "call", "calls")
        );
        if let Some(state) = &self.findings.final_state {
            text.push_str(&format!(
                ", {} at the end",
                counted(state.different, "path differs", "paths differ")
            ));
        }
        let state = self.findings.final_state.iter();
        let differences = state.flat_map(|state| &state.differences);
        for difference in differences.take(DIFFERENCES_SHOWN) {
            let [path, expected, found] =
                [&difference.path[..], difference.expected.as_bytes(), difference.found.as_bytes()]
                    .map(render::escape::escaped);
            let what = &difference.what;
            text.push_str(&format!("\n  {path}: {what}: {expected} expected, {found} found"));
        }
        for group in outcome.mismatches.groups.iter().take(CAUSES_SHOWN) {
            text.push_str(&format!(
                "\n  {}: {}",
                counted(group.count, "time", "times"),
                group.cause
            ));
            if let Some(example) = group.examples.first() {
                let [expected, found] = [&example.expected, &example.found]
                    .map(|text| render::escape::escaped(text.as_bytes()));
                let seq = example.seq;
                text.push_str(&format!(" (call {seq}: {expected} expected, {found} found)"));
            }
        }
        Some(Failure::Different(text))
    }
}

#[cfg(test)]
mod tests {
    use replay::compare::{Difference, FinalState};
    use replay::session::Findings;

    use super::*;

    #[test]
    fn paths_that_differ_at_the_end_are_named() {
        let difference = Difference {
            path: b"/a\nb".to_vec(),
            what: "size".into(),
            expected: "1".into(),
            found: "2".into(),
        };
        let state =
            FinalState { different: 1, differences: vec![difference], ..FinalState::default() };
        let findings = Findings { final_state: Some(state), ..Findings::default() };
        let failure = Found { findings, kept: None, waits: Vec::new() }
            .failure()
            .expect("it differs")
            .to_string();
        assert!(failure.contains("1 path differs at the end"), "{failure}");
        assert!(failure.contains("\n  /a\\nb: size: 1 expected, 2 found"), "{failure}");
    }
}
