//! An overview as an object of JSON.

use model::mounts::major_minor;
use model::names;
use model::unseen::NotSeen;
use render::json::Json;
use render::origin;
use trace::Trace;

use super::{End, Known, KnownTimes, Loss, MappedTimes, Overview, UpTo};

/// Writes the object.
pub fn json(json: &mut Json<'_>, trace: &Trace, overview: &Overview) {
    json.object(|json| {
        let (s, report) = (overview, &overview.report);
        json.key("complete").bool(report.complete);
        json.key("sound").bool(report.sound());
        json.key("lost").uint(report.lost);
        json.key("gaps").uint(report.gaps.max(s.gap_count));
        if s.unknown_events > 0 {
            json.key("unknown_events").uint(s.unknown_events);
        }
        json.key("calls").uint(s.calls);
        json.key("by_call").object(|json| {
            for (name, count) in &s.by_call {
                json.key(name).object(|json| {
                    json.key("count").uint(count.count);
                    json.key("errors").uint(count.errors);
                    json.key("ns").uint(count.ns);
                });
            }
        });
        json.key("data_bytes").uint(s.data_bytes);
        json.key("stored_bytes").uint(s.stored_bytes);
        json.key("trace_bytes").uint(s.trace_bytes);
        json.key("processes").uint(s.processes);
        json.key("threads").uint(s.threads);
        json.key("stall_ns").uint(s.stall_ns);
        json.key("slow_path_calls").uint(s.slow_path_calls);
        json.key("epoch_ns").str(&trace.preamble().epoch_ns.to_string());
        json.key("span_ns").uint(s.span_ns);
        json.key("ended").bool(trace.totals().is_some());
        json.key("shared_device").bool(s.shared_device);
        origin_json(json, trace);
        totals_json(json, trace);
        json.key("gap_list").array(|json| {
            for gap in &s.gaps {
                json.object(|json| {
                    json.key("time_ns").uint(gap.ns);
                    json.key("why").str(names::gap(gap.why).0);
                    json.key("text").str(&gap.text);
                    json.key("count").uint(gap.count);
                    json.key("program").bytes(&gap.program);
                    json.key("pids").array(|json| {
                        gap.pids.iter().for_each(|&pid| json.uint(pid.into()));
                    });
                });
            }
        });
        json.key("problems").array(|json| {
            for problem in &report.problems {
                json.object(|json| {
                    json.key("offset").optional_uint(problem.offset);
                    json.key("what").str(&problem.what);
                });
            }
        });
        json.key("problems_more").uint(report.problems_more);
        json.key("unreadable").array(|json| s.errors.iter().for_each(|error| json.str(error)));
        up_to_json(json, &s.up_to);
        mapped_times_json(json, &s.mapped_times);
        known_times_json(json, &s.known_times);
        not_seen_json(json, &s.not_seen);
        json.key("mounts").array(|json| {
            for mount in s.mounts.used() {
                json.object(|json| {
                    json.key("point").bytes(&mount.point);
                    json.key("type").bytes(&mount.kind);
                    json.key("source").bytes(&mount.source);
                    json.key("options").bytes(&mount.options);
                    json.key("dev").str(&format!("{}:{}", mount.dev.0, mount.dev.1));
                });
            }
        });
    });
}

fn up_to_json(json: &mut Json<'_>, found: &UpTo) {
    if !found.mapped.is_empty() {
        json.key("mapped_until").array(|json| {
            for Loss { pid, until_ns, end } in &found.mapped {
                json.object(|json| {
                    json.key("pid").uint((*pid).into());
                    json.key("time_ns").uint(*until_ns);
                    json.key("why").str(match end {
                        End::Killed => "killed",
                        End::RecorderEnded => "recording-ended",
                    });
                });
            }
        });
    }
    if found.under_way > 0 {
        json.key("operations_under_way").object(|json| {
            json.key("count").uint(found.under_way);
            json.key("since_ns").optional_uint(found.under_way_since_ns);
        });
    }
    if found.missing > 0 {
        json.key("operations_missing").uint(found.missing);
    }
}

/// Writes the unseen data as `blind` and `notes`.
pub fn not_seen_json(json: &mut Json<'_>, found: &NotSeen) {
    json.key("blind").array(|json| {
        for blind in &found.blind {
            json.object(|json| {
                json.key("kind").str(blind.way.name());
                for (key, name) in [("file", &blind.file), ("descriptor", &blind.descriptor)] {
                    match name {
                        Some(name) => json.key(key).bytes(name),
                        None => json.key(key).null(),
                    }
                }
                json.key("count").optional_uint(blind.count);
                json.key("bytes").optional_uint(blind.bytes);
                json.key("endangers_replay").bool(blind.way.endangers_replay());
                json.key("why").str(&blind.why);
                json.key("what_to_do").str(blind.way.remedy());
            });
        }
    });
    json.key("notes").array(|json| {
        for (note, count) in &found.notes {
            json.object(|json| {
                json.key("kind").str(note.name());
                json.key("count").uint(*count);
                json.key("what").str(note.what());
            });
        }
    });
}

fn origin_json(json: &mut Json<'_>, trace: &Trace) {
    let preamble = trace.preamble();
    json.key("command").array(|json| preamble.command.iter().for_each(|word| json.bytes(word)));
    json.key("recorder_version").str(&preamble.recorder_version);
    json.key("options").str(&preamble.options);
    json.key("filtered").optional_str(origin::selection(preamble));
    json.key("host").str(&preamble.host);
    json.key("kernel").str(&preamble.kernel);
    json.key("cpu").str(&preamble.cpu);
    json.key("cpus").uint(preamble.cpus.into());
    json.key("memory_bytes").uint(preamble.memory_bytes);
    json.key("page_bytes").uint(preamble.page_bytes.into());
    json.key("tsc_hz").uint(trace.tsc_hz());
    let (major, minor) = major_minor(preamble.trace_dev);
    json.key("trace_dev").str(&format!("{major}:{minor}"));
}

fn totals_json(json: &mut Json<'_>, trace: &Trace) {
    let Some(totals) = trace.totals() else { return json.key("totals").null() };
    json.key("totals").object(|json| {
        json.key("calls_made").uint(totals.calls_made);
        json.key("calls_read").uint(totals.calls_read);
        json.key("calls_written").uint(totals.calls_written);
        json.key("ring_bytes_published").uint(totals.ring_bytes_published);
        json.key("ring_bytes_read").uint(totals.ring_bytes_read);
    });
}

fn mapped_times_json(json: &mut Json<'_>, found: &MappedTimes) {
    if *found == MappedTimes::default() {
        return;
    }
    json.key("mapped_times").object(|json| {
        json.key("by_faults").uint(found.by_faults);
        json.key("by_looks").uint(found.by_looks.values().sum());
        json.key("why").array(|json| found.by_looks.keys().for_each(|why| json.str(why)));
        json.key("lost").uint(found.lost);
    });
}

fn known_times_json(json: &mut Json<'_>, found: &KnownTimes) {
    fn numbers(json: &mut Json<'_>, known: &Known) {
        json.key("by_time_stamps").uint(known.time_stamps);
        json.key("by_cpu_clock").uint(known.cpu_clock);
        json.key("unknown").uint(known.unknown);
    }
    json.key("cpu_time").object(|json| {
        json.key("recorded").bool(found.all.any() > 0);
        numbers(json, &found.all);
        json.key("threads").array(|json| {
            for (pid, tid, known) in found.threads.values() {
                json.object(|json| {
                    json.key("pid").optional_uint(pid.map(u64::from));
                    json.key("tid").optional_uint(tid.map(u64::from));
                    numbers(json, known);
                });
            }
        });
    });
}
