//! Fits the rate constants of a chemical mechanism to measurements, by the method of Levenberg and Marquardt.
//!
//! The mechanism is Coran's, for the vulcanisation of rubber (*Rubber Chemistry and Technology* 37, 1964), with a last
//! reaction for the decay of links:
//!
//! ```text
//! A → B     B → C     C → V     A + C → B     V →
//! ```
//!
//! The accelerator A turns into B, and B into the active form C. While there is A it takes C away, before C can link the
//! rubber's molecules (V). So the rubber stays soft for a while, and then cures within minutes. The fourth reaction is
//! hundreds of times faster than the others, so the equations are stiff.
//!
//! Experiments are dealt over the shards. A trial of new constants has two reductions and two broadcasts, all in flight
//! at the same time. The application in "Advanced collective communication in Aspen" is of this kind.
//!
//! | object | value | from | to |
//! |---|---|---|---|
//! | `squares` | the sum of squares | shards with experiments | the judge |
//! | `equations` | JᵀJ and Jᵀr, for the residuals r and their derivatives J | shards with experiments | the solver |
//! | `rulings` | whether the trial is accepted, and the next damping | the judge | all |
//! | `steps` | the next trial | the solver | all |
//!
//! The judge, which is the last shard, need not have experiments. Sums are exact, so a fit in one loop over all experiments
//! gives the same bits as any number of shards.

use chemistry::marquardt::{self, EQUATIONS, Ruling, Step, Total};
use chemistry::mechanism::{CONSTANTS, EXPERIMENTS, SAMPLES, Samples, TRUE, measure};
use maniple::prelude::*;
use maniple::regions::Vector;
use std::time::Instant;
mod common;
mod chemistry {
    pub mod linear;
    pub mod marquardt;
    pub mod mechanism;
}

const MEASURED: Field<Samples> = Field::new(0, "measured");

fn measurements(mut measured: Write<Samples>) {
    measured.fill_with(|[i]| measure(i as u32));
}

fn squares(measured: Read<Samples>, step: Arg<Step>) -> Vec<Total> {
    marquardt::squares(measured.as_slice(), measured.rect().lo(0) as u32, &step.trial)
}

fn equations(measured: Read<Samples>, step: Arg<Step>) -> Vec<Total> {
    marquardt::equations(measured.as_slice(), measured.rect().lo(0) as u32, &step.trial)
}

fn judge(before: Arg<Ruling>, squares: Arg<Vector<Total>>) -> Ruling {
    before.next(&squares)
}

fn solve(before: Arg<Step>, equations: Arg<Vector<Total>>, ruling: Arg<Ruling>) -> Step {
    before.next(&equations, &ruling)
}

/// `squares`, `equations`, `rulings` and `steps`.
type Objects = (Collective<[Total]>, Collective<[Total]>, Collective<Ruling>, Collective<Step>);

const SOLVER: u32 = 0;

/// The shard waits for each ruling only. Each launch and each call takes the futures of those before it.
async fn fit(shard: Shard, (block, objects): (Region, Objects)) -> Result<(Step, Ruling, u32), Error> {
    let (to_judge, to_solver, rulings, steps) = objects;
    let data = shard.region(block)?;
    shard.launch(measurements, (data.write(MEASURED),)).go()?.detach();

    let (mut step, mut ruling) = (TaskFuture::ready(Step::first()), TaskFuture::ready(Ruling::FIRST));
    let mut trials = 0;
    loop {
        if !block.rect.is_empty() {
            let arguments = || (data.read(MEASURED), (&step).into());
            to_judge.contribute(&shard, &shard.launch(squares, arguments()).go()?)?.detach();
            to_solver.contribute(&shard, &shard.launch(equations, arguments()).go()?)?.detach();
        }
        if shard.index() == shard.shards() - 1 {
            let squares = to_judge.receive(&shard)?;
            let word = shard.launch(judge, ((&ruling).into(), (&squares).into())).go()?;
            rulings.contribute(&shard, &word)?.detach();
        }
        ruling = rulings.receive(&shard)?;
        if shard.index() == SOLVER {
            let equations = to_solver.receive(&shard)?;
            let found = shard.launch(solve, ((&step).into(), (&equations).into(), (&ruling).into())).go()?;
            steps.contribute(&shard, &found)?.detach();
        }
        step = steps.receive(&shard)?;
        trials += 1;
        let word = ruling.clone().await?;
        if word.over == 1 {
            return Ok((step.await?, word, trials));
        }
    }
}

fn run(shards: u32, workers: u32) -> Result<String, Error> {
    let began = Instant::now();
    let (results, _) = Runtime::threads(workers).run(move |top| async move {
        let bench = top.region_tree("bench", Rect::line(0, EXPERIMENTS.into()), &[MEASURED.info()])?;
        let blocks: Vec<Region> = Partition::equal(bench, shards as usize)?.iter().collect();
        let gang = top.gang("all", shards)?;
        // Shards that have no experiments are the last ones.
        let with_experiments = || 0..shards.min(EXPERIMENTS);
        let sum = |receiver| Collective::reduce(Total::operator(), [receiver]).participants(with_experiments());
        let objects: Objects = (
            sum(shards - 1).elements(1).make(&top, &gang, "squares")?,
            sum(SOLVER).elements(EQUATIONS).make(&top, &gang, "equations")?,
            Collective::broadcast(shards - 1).make(&top, &gang, "rulings")?,
            Collective::broadcast(SOLVER).make(&top, &gang, "steps")?,
        );
        let start = |s: u32| {
            let block = blocks[s as usize];
            ShardLaunch::new((block, objects)).writes(block, [MEASURED])
        };
        top.launch_gang(&gang, &top.register("fit", fit), start)?.all().await
    })?;
    let together = began.elapsed();

    let began = Instant::now();
    let expected = marquardt::fit(0..EXPERIMENTS);
    let alone = began.elapsed();
    common::verify("the bits of the fit in one loop, on every shard", results, vec![expected; shards as usize])?;

    let (step, ruling, trials) = expected;
    let freedom = EXPERIMENTS as usize * 2 * SAMPLES - CONSTANTS;
    let errors = step.errors((ruling.squares / freedom as f64).sqrt());
    let mut lines = vec![format!("after {trials} trials, by {shards} shards on {workers} workers:")];
    for (i, truth) in TRUE.into_iter().enumerate() {
        let right = errors[i] < 0.1 && (step.best[i] - truth.ln()).abs() < 4.0 * errors[i];
        let found = format!("k{} = {:.5} ± {:.2}%", i + 1, step.best[i].exp(), 100.0 * errors[i]);
        common::verify(&format!("{found}, where {truth} is right"), right, true)?;
        lines.push(found);
    }
    lines.push(format!("{together:.1?}, in one loop {alone:.1?}"));
    Ok(lines.join("\n"))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
