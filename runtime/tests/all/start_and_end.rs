//! How many messages a process sends to start and end a run of N processes.

#![cfg(target_os = "linux")]
use crate::common::processes::on_processes;
use crate::common::say::say;
use crate::common::size::part;
use maniple_runtime::{Error, Runtime, Shard, ShardLaunch};
use std::sync::Mutex;

/// The messages that each process has sent, as the runtime logs them.
struct Counts(Mutex<Vec<u32>>);

impl log::Log for Counts {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() == log::Level::Debug
    }

    fn log(&self, record: &log::Record<'_>) {
        let text = record.args().to_string();
        let number = || -> Option<u32> { text.split_once("has sent ")?.1.strip_suffix(" messages")?.parse().ok() };
        self.0.lock().expect("no panic").extend(number());
    }

    fn flush(&self) {}
}

static COUNTS: Counts = Counts(Mutex::new(Vec::new()));

/// A gang of one shard a process, and nothing else.
fn run(runtime: &Runtime, processes: u32) -> Result<Vec<u32>, Error> {
    let (results, _) = runtime.run(move |top| async move {
        let gang = top.gang("all", processes)?;
        let task = top.register("body", |shard: Shard, ()| async move { Ok(shard.index() * shard.index()) });
        top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
    })?;
    Ok(results)
}

#[test]
fn a_process_sends_a_message_for_each_doubling_of_their_number() {
    let test = "start_and_end::a_process_sends_a_message_for_each_doubling_of_their_number";
    let all = [2, 3, 5, 4, 7, 8, 9, 12, 16].map(|processes| (processes, 1));
    let shapes = &all[..part(9) as usize];
    let texts = on_processes(test, shapes, |runtime| {
        log::set_logger(&COUNTS).expect("the only one");
        log::set_max_level(log::LevelFilter::Debug);
        let processes = std::env::var("MANIPLE_TEST_SHAPE").expect("a shape");
        let processes = processes.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
        assert_eq!(run(&runtime, processes), Ok((0..processes).map(|i| i * i).collect()));
        let counts = COUNTS.0.lock().expect("no panic");
        if Runtime::process_number() == 0 {
            say(&format!("counts: {counts:?}"));
        }
    });
    for (text, (processes, _)) in texts.iter().zip(shapes.iter().copied()) {
        // The smallest number of doublings that come to all of them.
        let doublings = (0..).find(|k| 1 << k >= processes).expect("some");
        let expected = vec![doublings; processes as usize];
        assert!(text.contains(&format!("counts: {expected:?}\n")), "{processes} processes: {text}");
    }
}
