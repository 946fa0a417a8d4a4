//! A gang of shards, each with an argument and a result.

use maniple::mapper::ProcessorId;
use maniple::prelude::*;
mod common;

/// A shard task: it knows its place in the gang, and the processor it runs on.
async fn hello(shard: Shard, greeting: String) -> Result<(String, ProcessorId), Error> {
    let line = format!("{greeting} from shard {} of {}", shard.index(), shard.shards());
    Ok((line, shard.processor()))
}

fn run(shards: u32, workers: u32) -> Result<String, Error> {
    let (results, stats) = Runtime::threads(workers).run(move |top| async move {
        let gang = top.gang("all", shards)?;
        let task = top.register("hello", hello);
        // Every shard gets an argument of its own; the future map holds the results in shard order.
        let greeting = |s: u32| if s.is_multiple_of(2) { "hello" } else { "good day" };
        top.launch_gang(&gang, &task, |s| ShardLaunch::new(greeting(s).to_string()))?.all().await
    })?;
    common::verify("results", results.len(), shards as usize)?;
    common::verify("shards started", stats.shards, u64::from(shards))?;
    for (s, (line, processor)) in results.iter().enumerate() {
        let word = if s % 2 == 0 { "hello" } else { "good day" };
        common::verify("line", line.as_str(), &format!("{word} from shard {s} of {shards}"))?;
        // Shards are placed in blocks: shard s of P on processor ⌊s·W/P⌋ of W.
        common::verify("processor", *processor, ProcessorId(s as u32 * workers / shards))?;
    }
    let lines: Vec<String> =
        results.iter().map(|(line, processor)| format!("{line} (processor {processor})")).collect();
    Ok(lines.join("\n"))
}

fn main() -> std::process::ExitCode {
    common::main(run)
}
