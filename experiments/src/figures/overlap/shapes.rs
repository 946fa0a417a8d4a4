//! What the paper's figures look like, and what is predicted: ratios of results, and whether they are in some range.

use super::runs::rate;
use super::{
    ALL, BENCHMARKS, CALLBACK, CUBE, Gains, HARDWARE, Iteration, Late, NONE, PLANE, POLLING, PRODUCT, Predicted,
    THREAD, Timed, WORDS,
};
use crate::figures::study::{Ratio, Shape};
use crate::figures::verdicts::Verdict;
use maniple::runtime::VirtualMachine;
use maniple_apps::fft;

/// The largest value.
pub fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NEG_INFINITY, f64::max)
}

fn least(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::INFINITY, f64::min)
}

/// The gains of a benchmark's points by a way, as ratios.
fn gains(points: &[Timed], way: usize) -> impl Iterator<Item = f64> {
    points.iter().map(move |point| point.gain(way))
}

fn mean(points: &[Timed], way: usize) -> f64 {
    gains(points, way).sum::<f64>() / points.len() as f64
}

/// The shapes of Figures 10 and 12.
pub fn shapes() -> Vec<Shape<Timed>> {
    let mut shapes: Vec<Shape<Timed>> = Vec::new();
    let mut shape = |paper: &str, ratio: &str, of: Box<Ratio<Timed>>, holds| {
        let (paper, ratio) = (paper.into(), ratio.into());
        shapes.push(Shape { paper, ratio, numbers: &[""], of, holds });
    };
    shape(
        "2D FFT: callbacks gain at all sizes",
        "time of the whole version ÷ by CB-SW, the least, to be at least 1.15",
        Box::new(|all| least(gains(&all[PLANE], CALLBACK))),
        |gain| gain >= 1.15,
    );
    shape(
        "… 21.9 % in the mean",
        "the mean, to be half to twice that",
        Box::new(|all| mean(&all[PLANE], CALLBACK)),
        |gain| (1.1095..=1.438).contains(&gain),
    );
    shape(
        "… a communication thread is behind",
        "time with it ÷ of the whole version by polling, the least, to be above 1",
        Box::new(|all| 1.0 / most(gains(&all[PLANE], THREAD))),
        |ratio| ratio > 1.0,
    );
    shape(
        "… by 4 %",
        "the same, the largest, to be at most 9/8",
        Box::new(|all| 1.0 / least(gains(&all[PLANE], THREAD))),
        |ratio| ratio <= 1.125,
    );
    shape(
        "collectives: polling, callbacks in software and by hardware are equal",
        "time of the slowest of the three ÷ of the fastest, over both FFTs the largest, to be at most 1.05",
        Box::new(|all| {
            let apart = |p: &Timed| {
                let three = || p.ms[POLLING..=HARDWARE].iter().copied();
                most(three()) / least(three())
            };
            most(all[..=CUBE].iter().flatten().map(apart))
        }),
        |ratio| ratio <= 1.05,
    );
    shape(
        "3D FFT: 21.2 % in the mean",
        "time of the whole version ÷ by CB-SW, the mean, to be half to twice that",
        Box::new(|all| mean(&all[CUBE], CALLBACK)),
        |gain| (1.106..=1.424).contains(&gain),
    );
    shape(
        "… its best gain is above that of 2D FFT, 34.5 against 26.8 %",
        "best gain of 3D ÷ of 2D, to be above 1",
        Box::new(|all| most(gains(&all[CUBE], CALLBACK)) / most(gains(&all[PLANE], CALLBACK))),
        |ratio| ratio > 1.0,
    );
    shape(
        "… a communication thread is 9.8 % behind in the mean",
        "time with it ÷ of the whole version by polling, the mean, to be half to twice that",
        Box::new(|all| 1.0 / mean(&all[CUBE], THREAD)),
        |ratio| (1.049..=1.196).contains(&ratio),
    );
    shape(
        "word count: the gain falls with the size",
        "gain with the fewest words ÷ with the most, to be above 1",
        Box::new(|all| {
            let [fewest, most] = [0, all[WORDS].len() - 1].map(|at| all[WORDS][at].gain(CALLBACK));
            fewest / most
        }),
        |ratio| ratio > 1.0,
    );
    shape(
        "matrix–vector product: gains more than word count",
        "its least gain ÷ the most of word count, to be above 1",
        Box::new(|all| least(gains(&all[PRODUCT], CALLBACK)) / most(gains(&all[WORDS], CALLBACK))),
        |ratio| ratio > 1.0,
    );
    shape(
        "… parts gain, whichever way they are delivered",
        "time of the whole version by CB-HW ÷ in parts by CB-HW, the least, to be above 1.01",
        Box::new(|all| least(all[PRODUCT].iter().map(Timed::parts))),
        |gain| gain > 1.01,
    );
    shape(
        "… a communication thread is behind, by up to 10.7 %",
        "time with it ÷ of the whole version by polling, the largest, to be above 1",
        Box::new(|all| 1.0 / least(gains(&all[PRODUCT], THREAD))),
        |ratio| ratio > 1.0,
    );
    shapes
}

/// By how many points gains on fewer processes differ from those on the most, at most; if there are runs on fewer.
pub fn change(gains: &[Gains]) -> Option<f64> {
    let apart = |g: &Gains| {
        let last = gains.iter().rfind(|last| last.benchmark == g.benchmark).map_or(&[][..], |last| &last.percent);
        most(g.percent.iter().zip(last).map(|(a, b)| (a - b).abs()))
    };
    // The last ones are those on the most processes.
    let fewer = &gains[..gains.len() - BENCHMARKS.len()];
    (!fewer.is_empty()).then(|| most(fewer.iter().map(apart)))
}

/// Verdicts on results that have no bands.
pub fn once_each(gains: &[Gains], predicted: &[Predicted], iterations: &[Iteration], late: &[Late]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut verdict = |paper: &str, ratio: &str, value: f64, holds: fn(f64) -> bool| {
        verdicts.push(Verdict::of(paper, ratio, &[value], 0, holds));
    };
    if let Some(change) = change(gains) {
        verdict(
            "trends over 16 to 128 nodes: gains differ by at most 4 points",
            "percentage points between the gain on fewer nodes and on the most, the largest, to be at most 4",
            change,
            |points| points <= 4.0,
        );
    }
    let off = |benchmark: &str| {
        most(predicted.iter().filter(|p| p.benchmark == benchmark).map(|p| (p.ms / p.predicted_ms - 1.0).abs()))
    };
    for (at, most, holds) in [(PLANE, 0.08, (|off| off <= 0.08) as fn(f64) -> bool), (CUBE, 0.1, |off| off <= 0.1)] {
        verdict(
            &format!("not in the paper: the time of the {} follows from the exchange", BENCHMARKS[at].name),
            &format!(
                "time by CB-HW ÷ that of launches, first lines, first block, exchange, its last messages, last part and its path \
                 − 1, the largest, to be at most {most}"
            ),
            off(BENCHMARKS[at].name),
            holds,
        );
    }
    if !iterations.is_empty() {
        let order = |i: &Iteration| (i.ms[HARDWARE] / i.ms[CALLBACK]).max(i.ms[CALLBACK] / i.ms[POLLING]);
        verdict(
            "Figure 9: CB-HW is at least as fast as CB-SW, and that as EV-PO",
            "time of a better way ÷ of the next one, the largest, to be at most 1.01",
            most(iterations.iter().map(order)),
            |ratio| ratio <= 1.01,
        );
        let processes = iterations.iter().map(|i| i.processes).max().unwrap_or_default();
        let tested = |multigrid: bool| best(iterations, processes, multigrid).tested_gain();
        verdict(
            "Figure 13: TAMPI is 1.5 % behind the whole version on HPCG",
            "time of the whole version ÷ by TAMPI on the most processes, to be below 1",
            tested(true),
            |gain| gain < 1.0,
        );
        verdict("… and 18.7 % ahead on MiniFE", "the same there, to be above 1", tested(false), |gain| gain > 1.0);
    }
    verdict(
        "not in the paper: a communication thread is better where late polls cost more than a core of eight",
        "time by polling with all messages by rendezvous ÷ with none − 1, where polling and the thread are equal, to be 1/8 within a quarter",
        crossing(late).unwrap_or(f64::NAN),
        |cost| (0.75..=1.25).contains(&(cost * 8.0)),
    );
    verdicts
}

/// The least times of an iteration on so many processes. As in the paper, each way has the number of shards that is best for it.
pub fn best(iterations: &[Iteration], processes: u32, multigrid: bool) -> Iteration {
    let these = || iterations.iter().filter(|i| (i.processes, i.multigrid) == (processes, multigrid));
    let ms = std::array::from_fn(|way| least(these().map(|i| i.ms[way])));
    Iteration { multigrid, processes, shards: 0, ms, tested_ms: least(these().map(|i| i.tested_ms)) }
}

/// The part of the time that late polls cost where polling and a communication thread are equally fast with all messages by
/// rendezvous, if they are. With none by rendezvous no message waits for a poll on its way.
pub fn crossing(late: &[Late]) -> Option<f64> {
    let behind = |late: &Late| (late.ms[ALL][0] / late.ms[ALL][2]).ln();
    let cost = |late: &Late| late.ms[ALL][0] / late.ms[NONE][0] - 1.0;
    late.windows(2).find_map(|two| {
        let (a, b) = (behind(&two[0]), behind(&two[1]));
        (a * b <= 0.0).then(|| cost(&two[0]) + (cost(&two[1]) - cost(&two[0])) * a / (a - b))
    })
}

/// The time of a transform by what nothing can hide: the launch of its tasks, the first lines, the first blocks, the exchange, the
/// messages that give its blocks back, and then the last part and its path.
pub fn predicted(machine: &VirtualMachine, lengths: [usize; 3]) -> f64 {
    let (processes, workers) = (machine.nodes as usize, f64::from(machine.per_node));
    let (operation, byte) = (rate(machine, "operation"), rate(machine, "packed-byte"));
    let values = lengths.iter().map(|n| *n as f64).product::<f64>() / processes as f64;
    let log = |n: usize| (n as f64).log2();
    let [first, second] = fft::sides(lengths, processes);
    let exchanges = [(second, lengths[1]), (first, lengths[0])];
    let mut ns = values * 5.0 * log(lengths[2]) * operation / workers;
    let mut tasks = workers;
    for (members, length) in exchanges.into_iter().take(if lengths[0] == 1 { 1 } else { 2 }) {
        let (bytes, parts) = (values * 16.0, members as f64);
        let fft::Residues { groups, .. } = fft::Residues::new(length, members);
        let pieces = fft::pieces(machine.per_node as usize, members) as f64;
        tasks += parts + parts * pieces;
        ns += bytes / parts * byte;
        ns += (bytes * (parts - 1.0) / parts * machine.network.byte_ns).max(bytes * byte / workers);
        // Messages that give blocks back come right behind the last block, and are handled first.
        ns += (parts - 1.0) * (machine.network.receive_ns + machine.costs.message_ns);
        ns += values / (parts * pieces) * 5.0 * log(length / members) * operation;
        for (count, of) in [(members / groups, groups), (groups, 1)] {
            if count > 1 {
                tasks += of as f64 * workers;
                ns += values / (of as f64 * workers) * (6.0 + 5.0 * log(count)) * operation;
            }
        }
    }
    // A processor gets the first task once the shard has launched all.
    ns += tasks * (machine.costs.launch_ns + machine.costs.requirement_ns);
    ns * 1e-6
}
