//! Compact data for the charts of the page.

use std::collections::{HashMap, HashSet};

use render::json::Json;
use stats::call_name;
use stats::flame::Shown;
use stats::group;
use stats::heat::{self, Picture};
use stats::histogram::Histogram;
use stats::lanes::Lane;
use stats::offsets::{self, Plot, Shape};
use stats::spread;

use crate::gather::Gathered;
use crate::tables::shown;

/// Limits for the calls with numbers over time, and for those numbers; the calls with most time are
/// chosen.
const HEAT_MAX: usize = 150;
const HEAT_NUMBERS_MAX: usize = 400_000;
/// Limit for the files by steps of time.
const FILE_CELLS_MAX: usize = 24_000;
/// Limit for the calls with a histogram; the most frequent are chosen.
const HISTOGRAMS_MAX: usize = 60;
/// Limit for the threads with a lane; those with most calls are chosen.
const LANES_SHOWN: usize = 200;
/// Limit for the ancestors searched: in a hostile trace, processes may be their own ancestors.
const PARENTS_MAX: usize = 100;
/// Approximate limit for the characters of all access plots.
const PLOT_BYTES_MAX: usize = 1_200_000;

fn numbers(json: &mut Json<'_>, values: impl Iterator<Item = u64>) {
    json.array(|json| values.for_each(|value| json.uint(value)));
}

/// Writes the data of all charts over time.
pub fn time(json: &mut Json<'_>, gathered: &Gathered) {
    let steps = &gathered.time.steps;
    json.object(|json| {
        let mut column = |key: &str, of: &dyn Fn(&stats::timeline::Step) -> u64| {
            numbers(json.key(key), steps.iter().map(of));
        };
        column("calls", &|step| step.calls);
        column("errors", &|step| step.errors);
        column("read_bytes", &|step| step.read_bytes);
        column("write_bytes", &|step| step.write_bytes);
        column("busy_ns", &|step| step.busy_ns);
        column("p50_ns", &|step| step.latency.quantile(0.5));
        column("p99_ns", &|step| step.latency.quantile(0.99));
        column("max_ns", &|step| step.latency.max);
        json.key("groups").array(|json| {
            for (group, (key, title)) in group::WORDS.iter().enumerate() {
                let mut calls = vec![0u64; steps.len()];
                for (_, picture) in gathered.heat.iter().filter(|(nr, _)| group::of(*nr) == group) {
                    for (sum, step) in calls.iter_mut().zip(&picture.steps) {
                        *sum += step.calls;
                    }
                }
                json.object(|json| {
                    json.key("key").str(key);
                    json.key("title").str(title);
                    numbers(json.key("calls"), calls.into_iter());
                });
            }
        });
    });
}

/// Writes the unsynced bytes over time.
pub fn unsynced(json: &mut Json<'_>, gathered: &Gathered) {
    let steps = &gathered.durability.steps;
    json.object(|json| {
        numbers(json.key("most_bytes"), steps.iter().map(|(most, _)| *most));
        numbers(json.key("end_bytes"), steps.iter().map(|(_, end)| *end));
    });
}

/// Writes the heat maps of latency.
pub fn heat(json: &mut Json<'_>, gathered: &Gathered) {
    let mut room = HEAT_NUMBERS_MAX;
    let has_room = |(_, picture): &&(u16, Picture)| {
        room = room.saturating_sub(count_of(picture));
        room > 0
    };
    let told: Vec<&(u16, Picture)> =
        gathered.heat.iter().take(HEAT_MAX).take_while(has_room).collect();
    json.object(|json| {
        numbers(json.key("from_ns"), (0..heat::ROWS).map(heat::from_ns));
        json.key("left_out").uint((gathered.heat.len() - told.len()) as u64);
        json.key("calls").array(|json| {
            for (nr, picture) in told {
                json.object(|json| heat_of(json, *nr, picture));
            }
        });
    });
}

/// Returns how many numbers a picture has.
fn count_of(picture: &Picture) -> usize {
    let of = |step: &heat::Step| {
        let used = |rows: &[u32]| 2 * rows.iter().filter(|count| **count > 0).count();
        6 + used(&step.rows) + used(&step.sizes) + 2 * step.errors.len()
    };
    picture.steps.iter().filter(|step| step.calls > 0).map(of).sum()
}

fn pairs(json: &mut Json<'_>, rows: &[u32]) {
    let used = rows.iter().enumerate().filter(|(_, count)| **count > 0);
    numbers(json, used.flat_map(|(row, count)| [row as u64, (*count).into()]));
}

/// Writes what calls did in each step that has some: the step, calls, time, longest, bytes, and how many
/// did not return; pairs of row and count of their latency; pairs of octave and count of their
/// sizes; pairs of error and count.
fn heat_of(json: &mut Json<'_>, nr: u16, picture: &Picture) {
    json.key("call").str(&call_name(nr));
    json.key("group").uint(group::of(nr) as u64);
    json.key("steps").array(|json| {
        for (at, step) in picture.steps.iter().enumerate().filter(|(_, step)| step.calls > 0) {
            json.array(|json| {
                let sums = [at as u64, step.calls, step.total_ns, step.max_ns, step.bytes];
                numbers(json, sums.into_iter().chain([step.unfinished]));
                pairs(json, &step.rows);
                pairs(json, &step.sizes);
                json.array(|json| {
                    for (errno, count) in &step.errors {
                        json.str(&stats::calls::errno_name(*errno));
                        json.uint(*count);
                    }
                });
            });
        }
    });
}

/// Writes the use of files in steps of time: for each row of the page's table, the steps with what its
/// columns sum up, from which zeros at the end are left out.
pub fn files_over_time(json: &mut Json<'_>, gathered: &Gathered, rows: &HashMap<usize, usize>) {
    let Some(all) = &gathered.files.over_time else { return json.null() };
    let widened = all.widened(|place| rows.contains_key(&place), FILE_CELLS_MAX);
    json.object(|json| {
        json.key("interval_ns").uint(widened.interval_ns);
        json.key("is_whole").bool(widened.is_whole);
        json.key("rows").array(|json| {
            for (place, steps) in &widened.by_place {
                json.array(|json| {
                    json.uint(rows.get(place).map_or(0, |row| *row as u64));
                    for (step, used) in steps {
                        let sums = used.numbers();
                        let end = sums.iter().rposition(|n| *n > 0).map_or(0, |at| at + 1);
                        numbers(json, [*step].into_iter().chain(sums[..end].iter().copied()));
                    }
                });
            }
        });
    });
}

/// Writes a histogram for each call, with one entry per power of two.
pub fn histograms(json: &mut Json<'_>, view: &spread::Spreads) {
    json.array(|json| {
        for (nr, histogram) in view.calls.iter().take(HISTOGRAMS_MAX) {
            json.object(|json| histogram_of(json, *nr, histogram));
        }
    });
}

fn histogram_of(json: &mut Json<'_>, nr: u16, histogram: &Histogram) {
    json.key("call").str(&call_name(nr));
    json.key("group").uint(group::of(nr) as u64);
    for (key, value) in [
        ("count", histogram.count),
        ("sum", histogram.sum),
        ("p50", histogram.quantile(0.5)),
        ("p99", histogram.quantile(0.99)),
        ("p999", histogram.quantile(0.999)),
        ("max", histogram.max),
    ] {
        json.key(key).uint(value);
    }
    let bars = histogram.octaves();
    numbers(json.key("from"), bars.iter().map(|bar| bar.from));
    numbers(json.key("counts"), bars.iter().map(|bar| bar.count));
}

/// Writes the activity of threads.
pub fn lanes(json: &mut Json<'_>, gathered: &Gathered) {
    let tasks = &gathered.tasks;
    let mut busiest: Vec<_> = tasks.threads.iter().collect();
    busiest.sort_by(|(a, of_a), (b, of_b)| of_b.calls.cmp(&of_a.calls).then(a.cmp(b)));
    let chosen: HashSet<u32> =
        busiest.iter().take(LANES_SHOWN).map(|(number, _)| *number).collect();
    let mut shown_threads: Vec<_> =
        tasks.threads.iter().filter(|(number, _)| chosen.contains(number)).collect();
    shown_threads.sort_by_key(|(number, thread)| (thread.process, *number));
    json.object(|json| {
        json.key("left_out").uint((tasks.threads.len() - shown_threads.len()) as u64);
        json.key("threads").array(|json| {
            for (number, thread) in shown_threads {
                json.object(|json| {
                    json.key("pid").uint(thread.pid.into());
                    json.key("tid").uint(thread.tid.into());
                    json.key("command").str(&shown(command(tasks, thread.process)));
                    json.key("start_ns").uint(thread.life.map_or(0, |(first, _)| first));
                    json.key("life_ns").uint(thread.life_ns());
                    json.key("calls").uint(thread.calls);
                    json.key("in_calls_ns").uint(thread.in_calls_ns);
                    json.key("stall_ns").uint(thread.stall_ns);
                    lane(json, gathered.lanes.get(number), gathered.interval_ns);
                });
            }
        });
    });
}

/// Returns the command of a process, or of its nearest ancestor if it called no exec.
fn command(tasks: &stats::tasks::TaskCounts, mut number: u32) -> &[u8] {
    for _ in 0..PARENTS_MAX {
        let Some(process) = tasks.processes.get(&number) else { break };
        match process.parent.filter(|_| process.command.is_empty()) {
            Some(parent) => number = parent,
            None => return &process.command,
        }
    }
    b""
}

/// Writes, for each step, pairs of a group and its share in thousandths.
fn lane(json: &mut Json<'_>, lane: Option<&Lane>, interval_ns: u64) {
    let Some(lane) = lane else { return };
    json.key("first").uint(lane.first as u64);
    json.key("busy").array(|json| {
        for step in &lane.steps {
            let parts = step.iter().enumerate().filter(|(_, ns)| **ns > 0.0);
            let thousandths = |ns: f32| {
                (f64::from(ns) * 1000.0 / interval_ns as f64).ceil().clamp(1.0, 1000.0) as u64
            };
            numbers(json, parts.flat_map(|(group, ns)| [group as u64, thousandths(*ns)]));
        }
    });
}

/// Writes the access plots; `rows` maps files to rows of the page's table.
pub fn plots(json: &mut Json<'_>, gathered: &Gathered, rows: &HashMap<usize, usize>) {
    let mut room = PLOT_BYTES_MAX;
    json.array(|json| {
        for (place, plot) in &gathered.plots {
            let Some(row) = rows.get(place) else { continue };
            room = room.saturating_sub(length(plot));
            if room == 0 {
                break;
            }
            json.object(|json| {
                json.key("row").uint(*row as u64);
                json.key("reads").uint(plot.reads);
                json.key("writes").uint(plot.writes);
                json.key("end").uint(plot.end);
                shape(json, &plot.shape);
            });
        }
    });
}

/// Returns the approximate number of characters of a plot.
fn length(plot: &Plot) -> usize {
    match &plot.shape {
        Shape::Dots(dots) => 36 * dots.len(),
        Shape::Density { columns, .. } => {
            columns.iter().flatten().count() * (2 * offsets::ROWS + 8)
        }
    }
}

fn shape(json: &mut Json<'_>, shape: &Shape) {
    match shape {
        Shape::Dots(dots) => {
            let values = |dot: &offsets::Dot| [dot.ns, dot.offset, dot.bytes, dot.is_write.into()];
            numbers(json.key("dots"), dots.iter().flat_map(values));
        }
        Shape::Density { row_bytes, columns } => {
            json.key("row_bytes").uint(*row_bytes);
            json.key("columns").array(|json| {
                for column in columns {
                    match column {
                        None => json.uint(0),
                        Some(column) => json.array(|json| {
                            (0..2).for_each(|which| {
                                json.str(&levels(column.iter().map(|cell| cell[which])));
                            });
                        }),
                    }
                }
            });
        }
    }
}

/// Encodes each count as a base-36 digit: 0 for none, else 1 plus its binary logarithm.
fn levels(counts: impl Iterator<Item = u32>) -> String {
    let level = |count: u32| count.checked_ilog2().map_or(0, |octave| octave + 1);
    let text: String =
        counts.map(|count| char::from_digit(level(count), 36).unwrap_or('z')).collect();
    text.trim_end_matches('0').to_string()
}

/// Writes a node of the tree of callers: name, place, time, calls, and what it calls.
pub fn flame(json: &mut Json<'_>, node: &Shown) {
    json.array(|json| {
        json.str(&shown(node.name.as_bytes()));
        json.str(&shown(node.place.as_bytes()));
        json.uint(node.ns);
        json.uint(node.calls);
        json.array(|json| node.children.iter().for_each(|child| flame(json, child)));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_powers_of_two() {
        assert_eq!(levels([0, 1, 2, 3, 4, 1000, u32::MAX, 0].into_iter()), "01223aw");
        assert_eq!(levels([0, 0].into_iter()), "");
    }
}
