//! Programs in the form of MapReduce: the examples, on small data that stand for large ones.

#[allow(dead_code, clippy::duplicate_mod, reason = "the example runs by itself, too")]
#[path = "../../../../examples/matrix_vector.rs"]
mod matrix_vector;
#[allow(dead_code, clippy::duplicate_mod, reason = "the example runs by itself, too")]
#[path = "../../../../examples/word_count.rs"]
mod word_count;

use maniple::prelude::*;
use maniple::runtime::now;
use maniple_apps::{Mode, nanoseconds};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// What a shard does, in nanoseconds of one core and in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Program {
    /// When tasks on parts start.
    pub mode: Mode,
    /// Tasks that map.
    pub tasks: usize,
    /// The time of each.
    pub map_ns: f64,
    /// The time in which a block is made.
    pub block_ns: f64,
    /// The bytes of a block.
    pub bytes: usize,
}

/// The bytes of a word with its count, 1, in the small text.
const LINE: usize = 8;

/// The result of a shard, and the time from when all are ready to begin.
type Timed<T> = (Duration, T);

impl Program {
    /// The times of the examples' tasks. Others take as long as the machine says.
    fn takes(&self) -> [Option<Duration>; 2] {
        [self.map_ns, self.block_ns].map(|ns| Some(nanoseconds(ns)))
    }

    fn whole(&self) -> bool {
        self.mode == Mode::Whole
    }
}

/// Words of 5 digits, one that each of so many shards owns.
fn words(shards: u32) -> BTreeSet<String> {
    let mut missing: BTreeSet<usize> = (0..shards as usize).collect();
    let all = (0..100_000).map(|n| format!("{n:05}"));
    let mut of_missing = |word: &String| missing.remove(&word_count::owner(word, shards as usize));
    all.filter(|word| of_missing(word)).take(shards as usize).collect()
}

/// Counts the words of a text in which each shard's piece has one word for each shard.
///
/// # Errors
/// Errors of the runtime, and wrong counts.
pub fn count_words(runtime: &Runtime, shards: u32, program: Program) -> Result<Duration, Error> {
    let line: String = words(shards).iter().map(|word| format!(" {word}")).collect();
    let text: Arc<str> = line.repeat(shards as usize).into();
    let expected = word_count::count(&text);
    let how = word_count::common::How { whole: program.whole(), tasks: program.tasks, takes: program.takes() };
    let (found, _) = runtime.run(move |top| {
        let text = text.clone();
        async move {
            let gang = top.gang("shards", shards)?;
            let shuffle = Collective::<u8>::all_to_all().any_sizes().standing_for(program.bytes / LINE);
            let shuffle = shuffle.make(&top, &gang, "shuffle")?;
            let start = Collective::<()>::barrier().make(&top, &gang, "start")?;
            let task = top.register("words", move |shard: Shard, (start, shuffle): (Collective<()>, _)| {
                let text = text.clone();
                timed(shard, start, move |shard| word_count::shard(shard, shuffle, text, how))
            });
            top.launch_gang(&gang, &task, |_| ShardLaunch::new((start, shuffle)))?.all().await
        }
    })?;
    slowest(found, |counts| counts.into_iter().flatten().collect::<word_count::Counts>() == expected)
}

/// Multiplies a matrix that has one row for each shard with a vector.
///
/// # Errors
/// Errors of the runtime, and a wrong product.
pub fn multiply(runtime: &Runtime, shards: u32, program: Program) -> Result<Duration, Error> {
    let how = matrix_vector::common::How { whole: program.whole(), tasks: program.tasks, takes: program.takes() };
    let n = shards as usize;
    let (found, _) = runtime.run(move |top| async move {
        let gang = top.gang("shards", shards)?;
        let exchange = Collective::<f64>::all_to_all().any_sizes().standing_for(program.bytes);
        let exchange = exchange.make(&top, &gang, "exchange")?;
        let start = Collective::<()>::barrier().make(&top, &gang, "start")?;
        let task = top.register("product", move |shard: Shard, (start, exchange): (Collective<()>, _)| {
            timed(shard, start, move |shard| matrix_vector::shard(shard, exchange, n, how))
        });
        top.launch_gang(&gang, &task, |_| ShardLaunch::new((start, exchange)))?.all().await
    })?;
    slowest(found, |rows| rows.concat().into_iter().eq((0..n).map(|i| matrix_vector::row(i, 0..n))))
}

/// Does a shard's work once all are ready to begin.
async fn timed<T, F: Future<Output = Result<T, Error>>>(
    shard: Shard,
    start: Collective<()>,
    work: impl FnOnce(Shard) -> F,
) -> Result<Timed<T>, Error> {
    start.call(&shard, ())?.await?;
    let began = now();
    let result = work(shard).await?;
    Ok((now() - began, result))
}

/// The time of the slowest shard, if the results are right.
fn slowest<T>(found: Vec<Timed<T>>, is_right: impl FnOnce(Vec<T>) -> bool) -> Result<Duration, Error> {
    let (times, results): (Vec<Duration>, Vec<T>) = found.into_iter().unzip();
    if !is_right(results) {
        return Err(Error::user("the shards have another result"));
    }
    Ok(times.into_iter().max().unwrap_or_default())
}
