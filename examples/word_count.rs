//! Word count, as in MapReduce: each shard counts the words of its piece of a text, and sends each count to the shard that owns
//! the word. Only senders know the sizes of these blocks. They are added up in the order in which they come.
use maniple::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
pub(crate) mod common;
use common::{How, piece};
pub(crate) type Counts = BTreeMap<String, u64>;

pub(crate) fn count(text: &str) -> Counts {
    let mut counts = Counts::new();
    text.split_whitespace().for_each(|word| *counts.entry(word.into()).or_default() += 1);
    counts
}

/// The shard that adds up the counts of a word.
pub(crate) fn owner(word: &str, shards: usize) -> usize {
    word.bytes().fold(0, |hash: usize, byte| hash.wrapping_mul(1_000_003).wrapping_add(byte.into())) % shards
}

/// For each shard lines of words that it owns and their counts.
fn deal(all: Many<Arg<Counts>>, shards: Arg<usize>) -> Arc<Vec<String>> {
    let mut lines = vec![String::new(); *shards];
    for (word, count) in all.into_iter().flat_map(|counts| counts.0) {
        lines[owner(&word, *shards)] += &format!("{word} {count}\n");
    }
    Arc::new(lines)
}

fn add(mut sums: Arg<Counts>, block: Arg<Vector<u8>>) -> Counts {
    for (word, count) in String::from_utf8_lossy(&block).lines().filter_map(|line| line.split_once(' ')) {
        *sums.0.entry(word.into()).or_default() += count.parse::<u64>().expect("a count");
    }
    sums.0
}

pub(crate) async fn shard(shard: Shard, shuffle: Collective<[u8]>, text: Arc<str>, how: How) -> Result<Counts, Error> {
    let (me, shards) = (shard.index() as usize, shard.shards() as usize);
    let map = move |n: Arg<usize>| count(piece(piece(&text, me, shards), *n, how.tasks));
    let maps = shard.index_launch(how.tasks, map, |n| (n.into(),)).takes(how.takes[0]).go()?;
    let lines = shard.launch(deal, (maps.into_iter().map(Into::into).collect(), shards.into())).go()?;
    let pack = |lines: Arg<Arc<Vec<String>>>, to: Arg<usize>| lines[*to].clone().into_bytes();
    let blocks = shard.index_launch(shards, pack, |to| ((&lines).into(), to.into())).takes(how.takes[1]);
    let mut parts = shuffle.call_parts(&shard, blocks.first(me + 1).go()?)?;
    how.wait(&parts).await?;
    let mut sums = TaskFuture::ready(Counts::new());
    while let Some((_, block)) = parts.next().await {
        sums = shard.launch(add, (sums.into(), block?.into())).go()?;
    }
    sums.take().await
}

fn run(shards: u32, workers: u32, text: Arc<str>) -> Result<String, Error> {
    let expected = count(&text);
    let found = format!("{} words, {} different", expected.values().sum::<u64>(), expected.len());
    let (counts, _) = Runtime::threads(workers).run(move |top| {
        let text = text.clone();
        async move {
            let gang = top.gang("all", shards)?;
            let shuffle = Collective::<u8>::all_to_all().any_sizes().make(&top, &gang, "shuffle")?;
            let words = top.register("words", move |s, shuffle| shard(s, shuffle, text.clone(), common::USUAL));
            top.launch_gang(&gang, &words, |_| ShardLaunch::new(shuffle))?.all().await
        }
    })?;
    common::verify("counts", counts.into_iter().flatten().collect(), expected).map(|()| found)
}

fn main() -> std::process::ExitCode {
    common::main_with_text(include_str!("word_count.rs"), run)
}
