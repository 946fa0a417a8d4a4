//! Programs drawn from seeds on three processes, with slow links, while processes are paused at random moments, or one is
//! killed. No run hangs, and no value is wrong.
//!
//! The full numbers: `cargo test --release -p maniple-command --test all explored_processes -- --ignored`

#![cfg(target_os = "linux")]

use fastrand::Rng;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

const PROCESSES: usize = 3;
/// All must be gone so long after one has been killed. The machine may be busy.
const GONE: Duration = Duration::from_secs(20);

/// Processes that explore, and what all of them have written once all have ended.
struct Job {
    first: Child,
    over: Receiver<String>,
}

impl Job {
    fn start(seeds: std::ops::Range<u64>) -> Self {
        let (mut read, write) = std::io::pipe().expect("a pipe");
        let mut command = Command::new(crate::MANIPLE);
        command.args(["explore", "--wire", "processes", "--no-shrink"]).args(["--processes", &PROCESSES.to_string()]);
        command.args(["--from", &seeds.start.to_string(), "--seeds", &(seeds.end - seeds.start).to_string()]);
        command.stdout(write.try_clone().expect("a pipe")).stderr(write);
        let first = command.spawn().expect("starts");
        // Only the processes have the other end from here on.
        drop(command);
        let (tell, over) = channel();
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = read.read_to_end(&mut text);
            tell.send(String::from_utf8_lossy(&text).into_owned())
        });
        Self { first, over }
    }

    /// The processes that are there, in order.
    fn processes(&self) -> Vec<OwnedFd> {
        let first = self.first.id();
        let threads = std::fs::read_dir(format!("/proc/{first}/task")).into_iter().flatten().flatten();
        let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
        let children = children.flat_map(|text| text.split(' ').filter_map(|n| n.parse().ok()).collect::<Vec<i32>>());
        let mut pids: Vec<i32> = children.collect();
        pids.sort_unstable();
        pids.insert(0, first.cast_signed());
        let open = |pid| pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok();
        pids.into_iter().filter_map(open).collect()
    }

    /// The end of the first process, and what all have written; an error if they are not gone in time.
    fn end(mut self, limit: Duration, processes: &[OwnedFd]) -> Result<(ExitStatus, String), String> {
        match self.over.recv_timeout(limit) {
            Ok(text) => Ok((self.first.wait().expect("a child"), text)),
            Err(_) => {
                self.processes().iter().chain(processes).for_each(|process| send(process, Signal::KILL));
                let _ = self.first.wait();
                Err(self.over.recv_timeout(limit).unwrap_or_default())
            }
        }
    }
}

fn send(process: &OwnedFd, signal: Signal) {
    // It may have ended.
    let _ = pidfd_send_signal(process, signal);
}

/// Runs these programs while processes are paused. They may take so long.
fn paused(seeds: std::ops::Range<u64>, limit: Duration) {
    let (number, began) = (seeds.end - seeds.start, Instant::now());
    let job = Job::start(seeds);
    let mut random = Rng::with_seed(number);
    let mut pauses = 0;
    loop {
        let wait = Duration::from_micros(random.u64(0..20_000));
        match job.over.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(text) => {
                let mut first = job.first;
                let status = first.wait().expect("a child");
                assert!(status.success(), "{status}: {text}");
                let row = text.lines().find(|line| line.starts_with(" programs "));
                assert!(row.is_some_and(|row| row.trim_end().ends_with(&format!(" {number}"))), "{text}");
                println!("{number} programs with {pauses} pauses in {:?}", began.elapsed());
                return;
            }
            Err(RecvTimeoutError::Disconnected) => unreachable!("it tells before it ends"),
        }
        if began.elapsed() > limit {
            panic!("not over after {limit:?}: {:?}", job.end(Duration::ZERO, &[]));
        }
        // One is paused, or two, or all.
        let mut processes = job.processes();
        random.shuffle(&mut processes);
        processes.truncate([1, 1, 1, 2, 3][random.usize(0..5)]);
        let longest = if random.u32(0..16) == 0 { 300_000 } else { 10_000 };
        processes.iter().for_each(|process| send(process, Signal::STOP));
        std::thread::sleep(Duration::from_micros(random.u64(0..longest)));
        processes.iter().for_each(|process| send(process, Signal::CONT));
        pauses += 1;
    }
}

/// Kills one process of a set that runs programs, at a moment drawn from the seed.
fn killed(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let job = Job::start(1_000_000 * seed..1_000_000 * seed + 500_000);
    // Every fourth while the processes start.
    let most = if seed.is_multiple_of(4) { 40_000 } else { 400_000 };
    let moment = Duration::from_micros(random.u64(0..most));
    std::thread::sleep(moment);
    let processes = job.processes();
    let (there, victim) = (processes.len(), random.usize(0..processes.len()));
    send(&processes[victim], Signal::KILL);
    let at = format!("seed {seed}: process {victim} of {there} killed after {moment:?}");
    let killed = Instant::now();
    let (status, text) =
        job.end(GONE, &processes).unwrap_or_else(|text| panic!("{at}: not all are gone after {GONE:?}: {text}"));
    let took = killed.elapsed();
    let told = text.matches("maniple: error").count();
    if victim > 0 {
        assert_eq!((status.code(), told), (Some(1), 1), "{at}: {status}, {text}");
        let lost = format!("process {victim} of the run, on ");
        assert!(text.contains(&lost) && text.contains("is lost: it was ended by signal 9"), "{at}: {text}");
    } else {
        // Before they have met there is nobody to tell it.
        assert!(told == 1 || told == 0 && moment < Duration::from_millis(100), "{at}: {text}");
        assert!(told == 0 || text.contains("process 0 of the run, on "), "{at}: {text}");
    }
    // Nothing else is wrong.
    let errors: Vec<&str> = text.lines().filter(|line| line.contains("seed ") || line.contains("panicked")).collect();
    let is_lost = |line: &&str| line.contains(": a lost process: ") || line.starts_with(" failed seed ");
    assert!(errors.iter().all(is_lost), "{at}: {text}");
    println!("{at}: all gone after {took:?}: {}", text.lines().last().unwrap_or_default());
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn programs_are_right_on_slow_and_paused_processes() {
    paused(0..60, Duration::from_secs(180));
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn a_killed_process_ends_all_and_is_named() {
    (0..10).for_each(killed);
}

#[test]
#[ignore = "2000 programs take minutes; before a release, and after a change of the wire"]
fn nightly_two_thousand_programs_are_right_on_slow_and_paused_processes() {
    paused(10_000..12_000, Duration::from_secs(3600));
}

#[test]
#[ignore = "200 sets of processes take minutes; before a release, and after a change of the wire"]
fn nightly_two_hundred_killed_processes_end_all_and_are_named() {
    (1000..1200).for_each(killed);
}
