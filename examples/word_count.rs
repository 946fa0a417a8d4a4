//! Word count, as in MapReduce: each shard counts the words of its piece of a text, and sends each count to the shard that the
//! word's hash names. Only senders know the sizes of these blocks. They are added up in the order in which they come.
use maniple::prelude::*;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::path::PathBuf;
use std::sync::Arc;
mod common;
type Counts = BTreeMap<String, u64>;

/// Counts the words of a text, apart for each shard that adds them up.
fn count(text: &str, shards: u32) -> Vec<Counts> {
    let mut counts = vec![Counts::new(); shards as usize];
    for word in text.split_whitespace() {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(word);
        *counts[(hash % u64::from(shards)) as usize].entry(word.into()).or_default() += 1;
    }
    counts
}

/// A shard's piece of a text: from the first blank in it to the first blank behind it.
fn piece(text: &str, shard: u32, shards: u32) -> &str {
    let start = |part: u32| {
        let at = text.len() * part as usize / shards as usize;
        let blank = text.bytes().skip(at).position(|b| b.is_ascii_whitespace());
        if part == 0 { 0 } else { blank.map_or(text.len(), |next| at + next) }
    };
    &text[start(shard)..start(shard + 1)]
}

/// One line for each word, with its count.
fn pack(counts: Arg<Arc<Vec<Counts>>>, to: Arg<usize>) -> Vec<u8> {
    counts[to.0].iter().map(|(word, count)| format!("{word} {count}\n")).collect::<String>().into_bytes()
}

async fn shard(shard: Shard, (shuffle, text): (Collective<[u8]>, String)) -> Result<Counts, Error> {
    let shards = shard.shards();
    let counted = shard.launch(move || Arc::new(count(&text, shards)), ()).go()?;
    let blocks = shard.index_launch(shards as usize, pack, |to| ((&counted).into(), to.into())).go()?;
    let (mut parts, mut all) = (shuffle.call_parts(&shard, blocks)?, Counts::new());
    while let Some((_, block)) = parts.next().await {
        for (word, count) in String::from_utf8_lossy(&block?).lines().filter_map(|line| line.split_once(' ')) {
            *all.entry(word.into()).or_default() += count.parse::<u64>().map_err(|_| Error::user("no count"))?;
        }
    }
    Ok(all)
}

fn run(shards: u32, workers: u32, files: &[PathBuf]) -> Result<String, Error> {
    let read = |file: &PathBuf| std::fs::read_to_string(file).map_err(|e| Error::user(format!("{file:?}: {e}")));
    let text = files.iter().map(read).collect::<Result<Vec<_>, _>>()?.join(" ");
    let whole = if files.is_empty() { include_str!("word_count.rs").to_string() } else { text };
    let pieces = Arc::new((0..shards).map(|s| piece(&whole, s, shards).to_string()).collect::<Vec<_>>());
    let (counts, _) = Runtime::threads(workers).run(move |top| {
        let pieces = pieces.clone();
        async move {
            let gang = top.gang("all", shards)?;
            let shuffle = Collective::<u8>::all_to_all().any_sizes().make(&top, &gang, "shuffle")?;
            let launch = |s: u32| ShardLaunch::new((shuffle, pieces[s as usize].clone()));
            top.launch_gang(&gang, &top.register("words", shard), launch)?.all().await
        }
    })?;
    let expected = count(&whole, 1).remove(0);
    let found = format!("{} words, {} different", expected.values().sum::<u64>(), expected.len());
    common::verify("counts", counts.into_iter().flatten().collect(), expected).map(|()| found)
}

fn main() -> std::process::ExitCode {
    common::main_with_files(run)
}
