//! What tests of several crates share by this path: runs of test bodies in several processes of this host.
//!
//! A test starts its own binary once more for each number of processes. That process runs the test alone, and the runtime
//! starts its copies, which do the same. So all processes make the same assertions.

use crate::size::full;
use maniple_runtime::Runtime;
use std::panic::resume_unwind;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The name of the test whose body a process runs.
const BODY: &str = "MANIPLE_TEST_BODY";
/// The numbers of processes and of workers in each.
const SHAPE: &str = "MANIPLE_TEST_SHAPE";
/// Far longer than any test takes, however busy the machine.
const LIMIT: Duration = Duration::from_secs(300);

/// The numbers of processes and of workers in each, in a process that runs a test's body.
fn shape() -> Option<(u32, u32)> {
    let text = std::env::var(SHAPE).ok()?;
    let mut numbers = text.split(' ').filter_map(|n| n.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

/// Runs `body` in processes of these numbers, with their runtime. Returns what all of them wrote.
pub fn on_processes(test: &str, shapes: &[(u32, u32)], body: impl FnOnce(Runtime)) -> Vec<String> {
    on_processes_with(&[], test, shapes, body)
}

/// The same with these variables of the environment.
pub fn on_processes_with(
    variables: &[(&str, &str)],
    test: &str,
    shapes: &[(u32, u32)],
    body: impl FnOnce(Runtime),
) -> Vec<String> {
    if let Some((processes, workers)) = shape().filter(|_| std::env::var(BODY).is_ok_and(|name| name == test)) {
        body(Runtime::processes(processes).workers(workers));
        return Vec::new();
    }
    // A few at the same time: they wait more than they work.
    let together = |shapes: &[(u32, u32)]| -> Vec<String> {
        std::thread::scope(|scope| {
            let run = |&shape| scope.spawn(move || one_run(variables, test, shape));
            let runs: Vec<_> = shapes.iter().map(run).collect();
            runs.into_iter().map(|run| run.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        })
    };
    shapes.chunks(3).flat_map(together).collect()
}

/// Runs the body of a test in a process of its own, for tests that look at the whole process or change it.
pub fn alone(test: &str, body: impl FnOnce()) {
    on_processes(test, &[(1, 1)], |_| body());
}

/// Runs the bodies of other tests on 1, 2, 3 and 4 processes, one after another in each set of processes. They get their
/// runtimes from [`runtimes`].
pub fn bodies_on_processes(test: &str, bodies: &[(&str, fn())]) {
    let shapes: &[_] = if full() { &[(1, 3), (2, 3), (3, 3), (4, 3)] } else { &[(2, 2)] };
    on_processes(test, shapes, |_| {
        for (name, body) in bodies {
            let began = Instant::now();
            body();
            eprintln!("{name}: {:?}", began.elapsed());
        }
    });
}

/// In a process that runs the body of a test: the runtimes that the body goes through in place of runtimes of one process,
/// with one worker a process up to the most.
pub fn runtimes() -> Option<Vec<(String, Runtime)>> {
    let (processes, most) = shape()?;
    let one = |workers| (format!("{processes} processes of {workers}"), Runtime::processes(processes).workers(workers));
    Some((1..=most).map(one).collect())
}

/// The number of processes in which the body of a test runs.
pub fn count() -> u32 {
    shape().map_or(1, |(processes, _)| processes)
}

/// Whether the body of a test runs in one process alone, within which nothing is encoded.
pub fn is_one() -> bool {
    shape().is_some() && count() == 1
}

/// The directory for files of tests. It is beside the files of the build.
fn scratch() -> std::path::PathBuf {
    let own = std::env::current_exe().expect("a test");
    let scratch = own.ancestors().nth(3).expect("a directory of builds").join("tmp");
    std::fs::create_dir_all(&scratch).expect("a directory");
    scratch
}

fn one_run(variables: &[(&str, &str)], test: &str, (processes, workers): (u32, u32)) -> String {
    let shape = format!("{processes} {workers}");
    let own = std::env::current_exe().expect("a test");
    // Tests of several crates may have one name.
    let binary = own.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let log = scratch().join(format!("{binary} {test} {shape}.txt"));
    let file = std::fs::File::create(&log).expect("a file");
    let mut command = Command::new(own);
    command
        .args([test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"])
        .env(BODY, test)
        .env(SHAPE, &shape)
        .envs(variables.iter().copied());
    // Panics on purpose would take long to show.
    command.env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null()).stdout(file.try_clone().expect("a file")).stderr(file);
    let mut first = command.spawn().expect("starts");
    let began = Instant::now();
    let status = loop {
        if let Some(status) = first.try_wait().expect("a child") {
            break status;
        }
        if began.elapsed() > LIMIT {
            // Its copies end when it does.
            first.kill().expect("a child");
            let _ = first.wait();
            panic!("{test} hangs on {shape}: {}", std::fs::read_to_string(&log).unwrap_or_default());
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    // The copies may still be writing; they say nothing if all is well.
    let text = std::fs::read_to_string(&log).expect("written");
    assert!(status.success(), "{test} on {shape}: {text}");
    text
}
