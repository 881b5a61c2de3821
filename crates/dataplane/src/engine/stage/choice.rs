//! Whether the functions of a hop are asked one after the other by the engine itself, one after the other by threads,
//! or side by side by threads: by what each costs. Knows prices and queues of one server (specification of function
//! parallelism, section 1.4); refuses to know who may stand beside whom.

use catena_model::parallelism::{Form, FormChoice};
use std::ops::Range;

/// A change must promise this share of the present delay at most: prices move, and forms shall not follow each move.
const WORTH: f64 = 0.9;

/// What is known of the packets that take one way through a hop.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Price {
    /// What each function costs for those that come together, in nanoseconds.
    pub(crate) members_ns: Vec<f64>,
    /// Which may be asked side by side.
    pub(crate) stages: Vec<Range<usize>>,
    /// How often packets come together, in a nanosecond.
    pub(crate) rate: f64,
}

/// What threads there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Threads {
    pub(crate) count: usize,
    /// What it costs to ask by one of them, in nanoseconds.
    pub(crate) handoff_ns: f64,
}

/// The mean time from entering to leaving, in nanoseconds, with a queue before each server; infinite: it would grow
/// without end.
pub(crate) fn delay_ns(price: &Price, form: Form, threads: Threads) -> f64 {
    servers(price, form, threads).map(|served_ns| through(served_ns, price.rate)).sum()
}

fn through(served_ns: f64, rate: f64) -> f64 {
    let load = rate * served_ns;
    if load < 1.0 { served_ns / (1.0 - load) } else { f64::INFINITY }
}

/// What each server of a form takes.
fn servers(price: &Price, form: Form, threads: Threads) -> impl Iterator<Item = f64> {
    let Price { members_ns, stages, .. } = price;
    let handoff_ns = threads.handoff_ns;
    let fused = (form == Form::Fuse).then(|| members_ns.iter().sum());
    let alone = (form == Form::Pipeline).then(|| members_ns.iter().map(move |ns| ns + handoff_ns));
    let beside = (form == Form::Fork).then(|| {
        let of = |stage: &Range<usize>| members_ns.get(stage.clone()).unwrap_or_default();
        stages.iter().map(move |stage| of(stage).iter().copied().fold(0.0, f64::max) + handoff_ns)
    });
    fused.into_iter().chain(alone.into_iter().flatten()).chain(beside.into_iter().flatten())
}

/// The slowest server of a form, in nanoseconds.
fn slowest_ns(price: &Price, form: Form, threads: Threads) -> f64 {
    servers(price, form, threads).fold(0.0, f64::max)
}

/// Are there threads for it? A fork needs one for each function of its widest stage, and saves nothing without one.
fn is_possible(prices: &[Price], form: Form, threads: Threads) -> bool {
    let widest = prices.iter().flat_map(|price| &price.stages).map(Range::len).max().unwrap_or(0);
    let longest = prices.iter().map(|price| price.members_ns.len()).max().unwrap_or(0);
    match form {
        Form::Fuse => true,
        Form::Pipeline => threads.count >= 2 && longest >= 2,
        Form::Fork => widest >= 2 && threads.count >= widest,
    }
}

/// The form for ways that share functions, so that all have one form, and what each would cost.
pub(crate) fn choose(prices: &[Price], threads: Threads, now: Form) -> FormChoice {
    let costs: Vec<(Form, Cost)> = Form::ALL
        .into_iter()
        .filter(|form| is_possible(prices, *form, threads))
        .map(|form| (form, cost(prices, form, threads)))
        .collect();
    let of = |wanted: Form| costs.iter().find(|(form, _)| *form == wanted).map(|(_, cost)| *cost);
    let form = match of(now) {
        // There are no threads for it any more.
        None => Form::Fuse,
        Some(present) => {
            let worth = costs.iter().filter(|(_, cost)| cost.is_worth_more_than(&present));
            let best = worth.min_by(|(_, one), (_, other)| {
                let by_delay = one.delay_ns.total_cmp(&other.delay_ns);
                by_delay.then_with(|| one.slowest_ns.total_cmp(&other.slowest_ns))
            });
            best.map_or(now, |(form, _)| *form)
        }
    };
    let told = |form: Form| of(form).filter(|cost| cost.delay_ns.is_finite());
    let told = |form: Form| told(form).map(|cost| cost.delay_ns as u64);
    FormChoice {
        form,
        fuse_ns: told(Form::Fuse),
        pipeline_ns: told(Form::Pipeline),
        fork_ns: told(Form::Fork),
        handoff_ns: Some(threads.handoff_ns as u64).filter(|_| threads.count > 0),
        threads: u32::try_from(threads.count).ok().filter(|count| *count > 0),
    }
}

/// What a form costs.
#[derive(Clone, Copy)]
struct Cost {
    /// The mean over all packets.
    delay_ns: f64,
    /// The slowest server of all ways.
    slowest_ns: f64,
}

impl Cost {
    /// Where every queue grows, it is the one that grows slowest.
    fn is_worth_more_than(&self, other: &Self) -> bool {
        match (self.delay_ns.is_finite(), other.delay_ns.is_finite()) {
            (false, false) => self.slowest_ns < other.slowest_ns * WORTH,
            (true, false) => true,
            _ => self.delay_ns < other.delay_ns * WORTH,
        }
    }
}

fn cost(prices: &[Price], form: Form, threads: Threads) -> Cost {
    let rate: f64 = prices.iter().map(|price| price.rate).sum();
    // Where nothing comes, what would come is as good on any way.
    let weight = |price: &Price| match rate > 0.0 {
        true => price.rate / rate,
        false => 1.0 / prices.len() as f64,
    };
    let weighed = prices.iter().filter(|price| weight(price) > 0.0);
    Cost {
        delay_ns: weighed.map(|price| weight(price) * delay_ns(price, form, threads)).sum(),
        slowest_ns: prices.iter().map(|price| slowest_ns(price, form, threads)).fold(0.0, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREADS: Threads = Threads { count: 4, handoff_ns: 5_000.0 };

    /// Of stages with so many functions.
    fn price(members_ns: &[f64], widths: &[usize], rate: f64) -> Price {
        let mut end = 0;
        let stage = |width: &usize| {
            end += width;
            end - width..end
        };
        Price { members_ns: members_ns.to_vec(), stages: widths.iter().map(stage).collect(), rate }
    }

    #[test]
    fn who_costs_less_than_a_hop_stays_with_the_engine() {
        let cheap = price(&[300.0, 400.0], &[2], 1e-5);
        for now in Form::ALL {
            assert_eq!(choose(std::slice::from_ref(&cheap), THREADS, now).form, Form::Fuse);
        }
    }

    #[test]
    fn four_that_take_a_millisecond_are_asked_side_by_side() {
        let heavy = price(&[1e6; 4], &[4], 0.1e-6);
        assert_eq!(choose(std::slice::from_ref(&heavy), THREADS, Form::Fuse).form, Form::Fork);
        // Of three threads nobody can ask four at once.
        let few = Threads { count: 3, ..THREADS };
        assert_eq!(choose(std::slice::from_ref(&heavy), few, Form::Fuse).form, Form::Pipeline);
        // And none at all is no choice, whatever there was before.
        let none = Threads { count: 0, ..THREADS };
        for now in Form::ALL {
            assert_eq!(choose(std::slice::from_ref(&heavy), none, now).form, Form::Fuse);
        }
    }

    #[test]
    fn what_may_not_stand_side_by_side_is_a_pipeline_under_load_and_one_behind_the_other_without() {
        let serial = |rate| price(&[1e6, 1e6], &[1, 1], rate);
        assert_eq!(choose(&[serial(0.01e-6)], THREADS, Form::Fuse).form, Form::Fuse);
        assert_eq!(choose(&[serial(0.4e-6)], THREADS, Form::Fuse).form, Form::Pipeline);
        // More than anybody can do: whoever gets most done.
        assert_eq!(choose(&[serial(3e-6)], THREADS, Form::Fuse).form, Form::Pipeline);
    }

    #[test]
    fn a_small_gain_changes_nothing_in_either_direction() {
        // Side by side it takes 95 % of the time.
        let handoff_ns = 900_000.0;
        let even = price(&[1e6, 1e6], &[2], 0.0);
        let threads = Threads { count: 2, handoff_ns };
        for now in [Form::Fuse, Form::Fork] {
            assert_eq!(choose(std::slice::from_ref(&even), threads, now).form, now);
        }
    }

    #[test]
    fn delays_are_those_of_queues() {
        let two = price(&[1_000.0, 3_000.0], &[2], 0.1e-3);
        let free = Threads { count: 2, handoff_ns: 0.0 };
        let about = |form: Form, wanted: f64| {
            let told = delay_ns(&two, form, free);
            assert!((told / wanted - 1.0).abs() < 1e-12, "{form:?}: {told} for {wanted}");
        };
        about(Form::Fuse, 4_000.0 / 0.6);
        about(Form::Pipeline, 1_000.0 / 0.9 + 3_000.0 / 0.7);
        about(Form::Fork, 3_000.0 / 0.7);
        let flood = Price { rate: 0.4e-3, ..two };
        assert!(delay_ns(&flood, Form::Fork, free).is_infinite());
    }
}
