//! A simulator for the planner: random programs run on a reference kernel in memory, the planner
//! plans what was recorded of them, and the plan is played on the same kernel in random orders that
//! it allows. Whatever comes out otherwise than recorded must have been uncertain.

mod chance;
mod history;
mod kernel;
mod player;
mod reach;
mod spelled;

use crate::image::MadeUp;
use std::cell::RefCell;
use std::sync::Arc;

use super::Planner;
use super::conflict::{Overlap, RULES, Rule, Rules};
use crate::batch::Lane;
use crate::image::tests::recording::space;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::shared::{Host, Shared};
use chance::Chance;
use history::History;
use kernel::{Kernel, Node};
use player::{Fault, Player};

/// What was simulated.
#[derive(Default, Debug)]
struct Sum {
    /// Steps of programs and of their replays.
    steps: u64,
    programs: u64,
    /// Programs with races that are out of the planner's reach.
    left_out: u64,
    calls: u64,
    /// Calls whose results prove less.
    uncertain: u64,
    /// Files and names of whose end nothing is known.
    doubted: u64,
}

/// Plays of each plan.
const PLAYS: usize = 4;

/// Runs the program of a seed, and replays it some times.
fn simulate(
    seed: u64,
    rules: Rules,
    overlap: bool,
    sum: &mut Sum,
) -> Result<(), Box<(History, Fault)>> {
    let mut chance = Chance::new(seed);
    let history = history::run(&mut chance, overlap);
    sum.programs += 1;
    sum.steps += history.steps;
    if history.is_out_of_reach() {
        sum.left_out += 1;
        return Ok(());
    }
    match plan_and_play(&history, rules, &mut chance, sum) {
        Ok(()) => Ok(()),
        Err(fault) => Err(Box::new((history, fault))),
    }
}

fn plan_and_play(
    history: &History,
    rules: Rules,
    chance: &mut Chance,
    sum: &mut Sum,
) -> Result<(), Fault> {
    let trace = history.trace();
    for _ in 0..PLAYS {
        let (first, outcome) = plan(&trace, rules);
        let mut player = Player::new(history, &first);
        player.play(chance)?;
        sum.steps += player.steps;
        sum.calls += player.made;
        sum.uncertain += player.uncertain;
        sum.doubted += (outcome.doubted.len() + outcome.hidden.len()) as u64;
        compare(&player.kernel, &history.after, &outcome)?;
    }
    Ok(())
}

/// Plans a trace: returns the lane of the first task, and what is in doubt in the end.
fn plan(trace: &trace::Trace, rules: Rules) -> (Arc<Lane>, Outcome) {
    let shared = Shared::new(Options::default(), Host::default(), space(), 1_000_000_000, 0);
    let first = RefCell::new(Arc::default());
    let launch = |lane: &Arc<Lane>| *first.borrow_mut() = Arc::clone(lane);
    let mut planner = Planner::new(&shared, &launch, trace, MadeUp::default(), None);
    planner.rules = rules;
    planner.run(&|_| {}).expect("the trace is sound");
    let mut outcome = Outcome::default();
    planner.count_into(&mut outcome);
    (first.into_inner(), outcome)
}

/// Compares the files that are left.
fn compare(ours: &Kernel, theirs: &Kernel, outcome: &Outcome) -> Result<(), Fault> {
    let (ours, theirs) = (ours.tree(), theirs.tree());
    for path in ours.keys().chain(theirs.keys()) {
        let doubt = outcome.doubt_of(path.as_bytes());
        let excused = match (ours.get(path), theirs.get(path)) {
            (one, other) if one == other => true,
            (Some(Node::File(one)), Some(Node::File(other))) => {
                doubt.is_some_and(|doubt| doubt.ends || one.len() == other.len())
            }
            _ => doubt.is_some_and(|doubt| doubt.all),
        };
        if !excused {
            let [one, other] = [&ours, &theirs].map(|tree| tree.get(path).map(Node::shown));
            return Err(Fault::Files(format!("{path}: {other:?} became {one:?}")));
        }
    }
    Ok(())
}

/// Simulates many programs; the first fault ends it.
fn simulate_many(seeds: std::ops::Range<u64>, overlap: bool) -> Sum {
    let mut sum = Sum::default();
    for seed in seeds {
        if let Err(wrong) = simulate(seed, Rules::ALL, overlap, &mut sum) {
            let (history, fault) = *wrong;
            panic!("seed {seed}: {fault}\n{history}");
        }
    }
    sum
}

/// Most calls of programs with overlap whose results prove less.
const UNCERTAIN_PERCENT: u64 = 25;
/// Programs with faults, for each rule that is left out.
const CAUGHT_BY: [(Overlap, u64); 24] = [
    (Overlap::FoundAndChanged, 148),
    (Overlap::ChangedAndFound, 3738),
    (Overlap::TwoChanged, 695),
    (Overlap::SawNothing, 179),
    (Overlap::SawAll, 443),
    (Overlap::SawPart, 394),
    (Overlap::NotHeld, 266),
    (Overlap::SawOldEnd, 15),
    (Overlap::SawNewEnd, 1588),
    (Overlap::SawNothingWithin, 170),
    (Overlap::SawEndWithin, 254),
    (Overlap::SawNothingBesideAppend, 687),
    (Overlap::LookedBesideAppend, 151),
    (Overlap::SawBehindCut, 78),
    (Overlap::SawEndBesideCut, 15),
    (Overlap::TwoWrote, 32),
    (Overlap::TwoAppended, 78),
    (Overlap::OneOffset, 0),
    (Overlap::TwoLocked, 901),
    (Overlap::TwoTook, 86),
    (Overlap::TwoPut, 73),
    (Overlap::ForkedAndChanged, 141),
    (Overlap::ClosedAndOpened, 48584),
    (Overlap::Contradiction, 443),
];

#[test]
fn what_is_certain_comes_out_as_recorded() {
    let sum = simulate_many(0..600, true);
    assert!(sum.calls > 10_000 && sum.left_out < sum.programs / 2, "{sum:?}");
    assert!(sum.uncertain * 100 < sum.calls * UNCERTAIN_PERCENT, "{sum:?}");
}

#[test]
fn nothing_is_uncertain_where_nothing_overlaps() {
    let sum = simulate_many(0..300, false);
    assert_eq!((sum.uncertain, sum.doubted, sum.left_out), (0, 0, 0), "{sum:?}");
}

/// With any rule left out, something that counts as certain comes out otherwise.
#[test]
fn every_rule_is_needed() {
    assert_eq!(CAUGHT_BY.map(|(overlap, _)| overlap), RULES.map(|rule| rule.overlap));
    for (overlap, seed) in CAUGHT_BY {
        let mut sum = Sum::default();
        let without = simulate(seed, Rules::without(overlap), true, &mut sum);
        assert!(without.is_err(), "{overlap:?} is not needed: find a seed that needs it");
        assert!(sum.steps < 2000, "{overlap:?}: {sum:?}");
        assert!(simulate(seed, Rules::ALL, true, &mut sum).is_ok(), "{overlap:?}");
    }
}

/// Programs that found faults of the planner, which are rare.
const FOUND_FAULTS: [u64; 12] = [
    // A doubt by a path from before a rename, or of a file that was removed while it was open.
    4_295_015_082,
    4_295_215_899,
    4_295_310_095,
    4_295_404_487,
    4_295_500_076,
    4_295_580_128,
    4_295_651_878,
    // What a child had: a pipe's numbers, and errors, show it.
    4_295_059_037,
    4_295_123_686,
    // A link to a name in doubt.
    4_295_472_656,
    4_295_506_221,
    // A number that is in use because the order of others was contradicted.
    4_295_376_253,
];

#[test]
fn what_was_wrong_once_is_right() {
    for seed in FOUND_FAULTS {
        if let Err(wrong) = simulate(seed, Rules::ALL, true, &mut Sum::default()) {
            let (history, fault) = *wrong;
            panic!("seed {seed}: {fault}\n{history}");
        }
    }
}

/// The table has the first seeds that need each rule. To be run by who changes the simulator.
#[test]
#[ignore = "takes a minute"]
fn these_are_the_first_seeds_that_need_a_rule() {
    let first = RULES.map(|Rule { overlap, .. }| {
        let needs = |seed: &u64| {
            let with = |rules| simulate(*seed, rules, true, &mut Sum::default()).is_ok();
            !with(Rules::without(overlap)) && with(Rules::ALL)
        };
        (overlap, (0..200_000).find(needs).expect("a seed needs it"))
    });
    assert_eq!(first, CAUGHT_BY);
}

/// `cargo xtask soak` runs it.
#[test]
#[ignore = "takes minutes without optimization"]
fn ten_million_steps() {
    let mut sum = Sum::default();
    let mut seed = 1 << 32;
    while sum.steps < 10_000_000 {
        let more = simulate_many(seed..seed + 1000, true);
        sum.steps += more.steps;
        seed += 1000;
    }
}
