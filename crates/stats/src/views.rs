//! The table of views. A new view is a file with its `VIEW`, and a row here.

use crate::view::ViewRow;
use crate::{
    block, cache, call_sites, call_states, calls, cpu_time, durability, file_pages, files,
    interrupts, kernel_counts, network, patterns, spread, tasks, timeline, waits,
};

/// All views, in the order in which they are listed. The first one is shown unless told otherwise.
pub static VIEWS: &[&ViewRow] = &[
    &calls::VIEW,
    &files::VIEW,
    &spread::SIZES,
    &spread::LATENCY,
    &timeline::VIEW,
    &tasks::PROCESSES,
    &tasks::THREADS,
    &network::VIEW,
    &durability::VIEW,
    &patterns::VIEW,
    &cache::VIEW,
    &kernel_counts::VIEW,
    &cpu_time::VIEW,
    &call_states::VIEW,
    &call_sites::VIEW,
    &waits::VIEW,
    &interrupts::VIEW,
    &block::VIEW,
    &file_pages::VIEW,
];

/// Other names under which people ask for views.
const ALSO: &[(&str, &ViewRow)] = &[("findings", &patterns::VIEW), ("summary", &calls::VIEW)];

/// Returns the view of a name.
pub fn by_name(name: &str) -> Option<&'static ViewRow> {
    let named = |view: &&ViewRow| view.name == name;
    let also = || ALSO.iter().find(|(also, _)| *also == name).map(|(_, view)| *view);
    VIEWS.iter().copied().find(named).or_else(also)
}
