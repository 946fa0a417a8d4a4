//! Runs on the processes of MPI, on this host and on two hosts made of network namespaces. Each test has `mpirun` start its
//! own binary; those processes run the test's body. `MANIPLE_TEST_MPIRUN` names the launcher of another MPI than Open MPI, which
//! has no second host.

#![cfg(target_os = "linux")]

use crate::say::say;
use crate::{denied, mappers, stacks, stuck};
use maniple::prelude::*;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The name of the test whose body a process runs.
const BODY: &str = "MANIPLE_TEST_BODY";
/// Which case of a test a process is in.
const CASE: &str = "MANIPLE_TEST_CASE";
/// The launcher, if it is not Open MPI's.
const LAUNCHER: &str = "MANIPLE_TEST_MPIRUN";
/// The library that belongs to it: a part of its path.
const LIBRARY: &str = "MANIPLE_TEST_MPI_LIBRARY";
/// What a process says when it has come to the end of the test's body.
const RAN: &str = "has run the body";
/// The time from an error until all processes are gone: 1 to 2 seconds on a machine that does nothing else.
const SOON: Duration = Duration::from_secs(10);
/// Generous, for a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum On {
    /// This many processes on this host.
    Here(u32),
    /// Two on each of two hosts.
    TwoHosts,
}

/// How a job of several processes has ended, and what they and the launcher have written.
struct Job {
    on: On,
    success: bool,
    text: String,
    /// When the launcher and all processes had ended.
    over: Duration,
}

impl Job {
    /// The only line in which a process has told an error.
    fn told(&self) -> &str {
        let lines: Vec<&str> = self.text.lines().filter(|line| line.contains("told: ")).collect();
        assert!(!self.success && lines.len() == 1, "{:?}: {}", self.on, self.text);
        assert!(!self.text.contains("finalize"), "{:?}: {}", self.on, self.text);
        self.was_soon_over();
        lines[0]
    }

    /// All processes have ended soon after the first of them knew that they would.
    fn was_soon_over(&self) {
        let known = self.text.lines().filter_map(|line| line.split_once("known at ")?.1.trim_end().parse().ok());
        let known = Duration::from_millis(known.min().unwrap_or_else(|| panic!("nobody knew: {}", self.text)));
        let took = self.over.saturating_sub(known);
        assert!(!self.success && took < SOON, "{:?} took {took:?}: {}", self.on, self.text);
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock that is set")
}

/// From now on this process knows that the job will not go on.
fn known() {
    say(&format!("known at {}", now().as_millis()));
}

/// The launcher of another MPI than Open MPI.
fn other_launcher() -> Option<String> {
    std::env::var(LAUNCHER).ok()
}

fn two_hosts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/two-hosts")
}

/// Whether this machine can have two hosts. Says so if it can't.
fn can_have_two_hosts() -> bool {
    if other_launcher().is_some() {
        eprintln!("SKIPPED on two hosts: they need Open MPI");
        return false;
    }
    let output = Command::new(two_hosts()).arg("--why-not").output().expect("starts");
    let why = String::from_utf8_lossy(&output.stdout).into_owned();
    if !why.is_empty() {
        eprintln!("SKIPPED on two hosts: {why}");
    }
    why.is_empty()
}

/// What `mpirun` is told to start: this test's program with this number of test threads, so often.
fn programs(test: &str, parts: &[(u32, &Path, u32)]) -> Vec<String> {
    let mut words = Vec::new();
    for (processes, program, threads) in parts {
        if !words.is_empty() {
            words.push(":".to_owned());
        }
        let program = program.to_str().expect("a name in UTF-8");
        words.extend(["-n".to_owned(), processes.to_string(), program.to_owned(), test.to_owned()]);
        words.extend(["--exact", "--include-ignored", "--nocapture"].map(str::to_owned));
        words.push(format!("--test-threads={threads}"));
    }
    words
}

fn launch(test: &str, case: &str, on: On, words: &[String]) -> Job {
    let other = other_launcher();
    let mut command = match on {
        On::Here(_) => Command::new(other.as_deref().unwrap_or("mpirun")),
        On::TwoHosts => Command::new(two_hosts()),
    };
    if other.is_none() {
        let here = on != On::TwoHosts;
        command.args(here.then_some("--oversubscribe")).args(["-x", BODY, "-x", CASE]);
    }
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mpi {test} {case} {on:?}.txt"));
    let file = std::fs::File::create(&log).expect("a file");
    command.args(words).env(BODY, test).env(CASE, case).stdin(Stdio::null());
    command.envs(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"].map(|name| (name, "1")));
    command.stdout(file.try_clone().expect("a file")).stderr(file);
    let mut mpirun = command.spawn().expect("mpirun of Open MPI is there");
    let began = Instant::now();
    let status = loop {
        if let Some(status) = mpirun.try_wait().expect("a child") {
            break status;
        }
        if began.elapsed() > LIMIT {
            let _ = mpirun.kill();
            let _ = mpirun.wait();
            for process in processes_of(test) {
                Command::new("kill").args(["-9", &process.to_string()]).status().expect("starts");
            }
            panic!("{test} {case} hangs on {on:?}: {}", std::fs::read_to_string(&log).unwrap_or_default());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    // The launcher of Open MPI sends its last signals as it ends.
    while !processes_of(test).is_empty() && began.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(5));
    }
    let text = String::from_utf8_lossy(&std::fs::read(&log).expect("a log")).into_owned();
    Job { on, success: status.success(), text, over: now() }
}

/// The processes that run the body of a test, of all hosts.
fn processes_of(test: &str) -> Vec<u32> {
    let body = format!("{BODY}={test}");
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // Empty for a process that has ended.
    let environment = |number: &u32| std::fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
    numbers.filter(|number| environment(number).split(|byte| *byte == 0).any(|text| text == body.as_bytes())).collect()
}

fn own() -> PathBuf {
    std::env::current_exe().expect("a program")
}

/// Whether this process runs the body of a test.
fn is_in(test: &str) -> bool {
    std::env::var(BODY).is_ok_and(|name| name == test)
}

/// The jobs that this machine can run.
fn possible(jobs: &[On]) -> impl Iterator<Item = On> {
    let hosts = jobs.contains(&On::TwoHosts) && can_have_two_hosts();
    jobs.iter().copied().filter(move |on| hosts || *on != On::TwoHosts)
}

/// Runs `body` in the processes of each job. Returns how the jobs have ended.
fn on_mpi(test: &str, jobs: &[On], body: impl FnOnce()) -> Vec<Job> {
    cases_on_mpi(test, &[""], jobs, |_| body()).into_iter().map(|(_, job)| job).collect()
}

/// Runs `body` for each case, in the processes of each job.
fn cases_on_mpi<'a>(test: &str, cases: &[&'a str], jobs: &[On], body: impl FnOnce(&str)) -> Vec<(&'a str, Job)> {
    if is_in(test) {
        body(&std::env::var(CASE).expect("a case"));
        // The harness writes a line in several pieces, between which other processes write.
        say(RAN);
        return Vec::new();
    }
    let mut ended = Vec::new();
    for on in possible(jobs) {
        let processes = if let On::Here(n) = on { n } else { 4 };
        let words = programs(test, &[(processes, &own(), 1)]);
        for case in cases {
            let job = launch(test, case, on, &words);
            // A process that ends well has run the test.
            let ran = job.text.matches(RAN).count();
            assert!(!job.success || ran == processes as usize, "{test} {case}: {}", job.text);
            ended.push((*case, job));
        }
    }
    ended
}

/// Says an error as a program does, and ends.
fn end(error: &Error) -> ! {
    known();
    match Runtime::reports_errors() {
        true => say(&format!("told: {error}")),
        false => Runtime::last_words(&error.to_string()),
    }
    std::process::exit(3)
}

/// A run of four shards that sum. The last one does `last` in its tenth round.
fn sums(runtime: &Runtime, elements: usize, last: fn()) -> Result<Vec<f64>, Error> {
    let (results, _) = runtime.run(move |top| async move {
        let gang = top.gang("all", 4)?;
        let total = Collective::allreduce(Operator::<f64>::sum()).elements(elements).make(&top, &gang, "total")?;
        let body = move |shard: Shard, total: Collective<[f64]>| async move {
            let mut x = vec![f64::from(shard.index()); elements];
            for round in 0..20 {
                if round == 10 && shard.index() == 3 {
                    last();
                }
                x = total.call(&shard, x)?.await?.iter().map(|x| x / 4.0).collect();
            }
            Ok(x[elements - 1])
        };
        top.launch_gang(&gang, &top.register("body", body), |_| ShardLaunch::new(total))?.all().await
    })?;
    Ok(results)
}

fn nothing() {}

const ALL: [On; 3] = [On::Here(2), On::Here(4), On::TwoHosts];

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn sums_have_the_exact_answer_and_mpi_is_finalised() {
    let jobs = on_mpi("on_mpi::sums_have_the_exact_answer_and_mpi_is_finalised", &ALL, || {
        if let Ok(library) = std::env::var(LIBRARY) {
            assert!(Runtime::mpi().meet().is_ok());
            let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
            assert!(maps.lines().any(|line| line.contains(&library)), "{library} is loaded: {maps}");
        }
        for workers in 1..=2 {
            for progress in [maniple::runtime::Progress::Poll, maniple::runtime::Progress::Dedicated] {
                let runtime = Runtime::mpi().workers(workers).progress(progress);
                // (0 + 1 + 2 + 3) / 4, and four times that divided by 4 from then on. The large one goes beside its head.
                for elements in [1, 131_072] {
                    assert_eq!(sums(&runtime, elements, nothing), Ok(vec![1.5; 4]));
                }
            }
        }
    });
    for job in jobs {
        assert!(job.success && !job.text.contains("finalize"), "{:?}: {}", job.on, job.text);
    }
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn a_panic_is_told_once() {
    let jobs = on_mpi("on_mpi::a_panic_is_told_once", &ALL, || {
        let error = sums(&Runtime::mpi().workers(1), 1, || panic!("on purpose")).expect_err("a panic");
        end(&error);
    });
    for job in jobs {
        assert!(job.told().contains("shard 3") && job.told().contains("on purpose"), "{}", job.text);
    }
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn a_lost_process_is_named_with_its_shards() {
    let jobs =
        on_mpi("on_mpi::a_lost_process_is_named_with_its_shards", &[On::Here(2), On::Here(4), On::TwoHosts], || {
            let kill = || {
                known();
                drop(Command::new("kill").args(["-9", &std::process::id().to_string()]).status());
            };
            let error = sums(&Runtime::mpi().workers(1), 1, kill).expect_err("a loss");
            end(&error);
        });
    for job in jobs {
        if other_launcher().is_some() {
            // That of MPICH kills all as soon as one is lost.
            job.was_soon_over();
            continue;
        }
        let last = if job.on == On::Here(2) { 1 } else { 3 };
        let told = job.told();
        assert!(told.contains(&format!("process {last} of the run, on ")), "{told}");
        assert!(told.contains("shards 2, 3 of gang `all`") || told.contains("shard 3 of gang `all`"), "{told}");
    }
}

/// As on old kernels and under the rules of old containers: results are right, and a lost process is named.
#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn calls_that_the_system_refuses_are_done_without() {
    let test = "on_mpi::calls_that_the_system_refuses_are_done_without";
    let errors = [denied::ENOSYS, denied::EPERM].map(|error| error.to_string());
    let cases = errors.each_ref().map(String::as_str);
    let jobs = cases_on_mpi(test, &cases, &[On::Here(2), On::TwoHosts], |case| {
        denied::deny(&[denied::MEMFD_CREATE, denied::PIDFD_OPEN], case.parse().expect("a number"));
        assert!(rustix::fs::memfd_create("denied", rustix::fs::MemfdFlags::empty()).is_err());
        let runtime = Runtime::mpi().workers(1);
        // They share memory all the same.
        let met = runtime.meet().expect("they meet");
        assert_eq!(met.first_of[1], 0);
        assert_eq!(sums(&runtime, 1000, nothing), Ok(vec![1.5; 4]));
        let kill = || {
            known();
            drop(Command::new("kill").args(["-9", &std::process::id().to_string()]).status());
        };
        end(&sums(&runtime, 1, kill).expect_err("a loss"));
    });
    for (_, job) in jobs {
        if other_launcher().is_some() {
            job.was_soon_over();
            continue;
        }
        let told = job.told();
        let last = if job.on == On::Here(2) { 1 } else { 3 };
        assert!(told.contains(&format!("process {last} of the run, on ")), "{told}");
    }
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn tasks_have_the_stack_of_the_run() {
    for job in on_mpi("on_mpi::tasks_have_the_stack_of_the_run", &[On::Here(2)], || {
        stacks::tasks_have_the_stack_of_the_run("MPI", &Runtime::mpi().workers(1));
    }) {
        assert!(job.success, "{:?}: {}", job.on, job.text);
    }
}

/// A task farm: each process is a program of its own, and none believes that another one prints.
#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn runs_on_threads_under_a_launcher_are_the_first_process_each() {
    let test = "on_mpi::runs_on_threads_under_a_launcher_are_the_first_process_each";
    for job in on_mpi(test, &[On::Here(4)], || {
        assert_eq!(Runtime::launched(), Some(4));
        let sum = sums(&Runtime::threads(2), 1, nothing).expect("runs")[0];
        if Runtime::process_number() == 0 && Runtime::reports_errors() {
            say(&format!("sum {sum} of {}", Runtime::process_count()));
        }
    }) {
        let sums = job.text.matches("sum 1.5 of 1\n").count();
        assert!(job.success && sums == 4, "{}", job.text);
    }
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn an_error_of_one_process_between_runs_is_told_by_those_who_miss_it() {
    let jobs = on_mpi("on_mpi::an_error_of_one_process_between_runs_is_told_by_those_who_miss_it", &ALL, || {
        let runtime = Runtime::mpi().workers(1);
        sums(&runtime, 1, nothing).expect("runs");
        if Runtime::process_number() == 1 {
            end(&Error::Stopped { what: "its own file was read".into() });
        }
        end(&sums(&runtime, 1, nothing).expect_err("process 1 has ended"));
    });
    for job in jobs {
        let told = job.told();
        assert!(told.contains("process 1 of the run, on ") && told.contains("its own file was read"), "{told}");
    }
}

/// Whoever leaves, and however, the others do not wait: neither the launcher nor MPI sees to that.
#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn a_process_that_ends_before_its_first_run_is_missed() {
    let test = "on_mpi::a_process_that_ends_before_its_first_run_is_missed";
    let cases = ["0 well", "0 with an error", "0 in a panic", "3 well", "3 with an error"];
    let jobs = cases_on_mpi(test, &cases, &[On::Here(4), On::TwoHosts], |case| {
        let runtime = Runtime::mpi().workers(1);
        let (who, how) = case.split_once(' ').expect("two words");
        if Runtime::process_number().to_string() == who {
            known();
            match how {
                "well" => std::process::exit(0),
                "in a panic" => panic!("on purpose"),
                _ => end(&Error::Stopped { what: "its own file was read".into() }),
            }
        }
        end(&sums(&runtime, 1, nothing).expect_err("a process has ended"));
    });
    for (case, job) in jobs {
        let told = job.told();
        match case {
            // The first one has said it itself.
            "0 with an error" => assert!(!told.contains("is lost"), "{told}"),
            "3 with an error" => {
                assert!(told.contains("process 3 of the run") && told.contains("its own file was read"), "{told}")
            }
            _ => {
                let expected = format!("process {} of the run, on ", &case[..1]);
                assert!(told.contains(&expected) && told.contains("ended before the others were done"), "{told}");
            }
        }
    }
}

/// Nobody of that host is left to miss the others: before the first run, and between two.
#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn a_host_that_has_left_is_missed() {
    if !can_have_two_hosts() {
        return;
    }
    let cases = ["b before", "a after", "b after"];
    let jobs = cases_on_mpi("on_mpi::a_host_that_has_left_is_missed", &cases, &[On::TwoHosts], |case| {
        let runtime = Runtime::mpi().workers(1);
        let (host, when) = case.split_once(' ').expect("two words");
        if when == "after" {
            sums(&runtime, 1, nothing).expect("runs");
        }
        if (Runtime::process_number() < 2) == (host == "a") {
            known();
            std::process::exit(0);
        }
        end(&sums(&runtime, 1, nothing).expect_err("a host has left"));
    });
    for (case, job) in jobs {
        let told = job.told();
        let expected = format!("of the run, on host-{}, ", &case[..1]);
        assert!(told.contains(&expected) && told.contains("ended before the others were done"), "{case}: {told}");
    }
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn a_panic_outside_of_runs_ends_all() {
    let jobs = on_mpi("on_mpi::a_panic_outside_of_runs_ends_all", &[On::Here(4)], || {
        sums(&Runtime::mpi().workers(1), 1, nothing).expect("runs");
        known();
        panic!("told: on purpose");
    });
    for job in jobs {
        // MPI is finalised, or else Open MPI would say that it is not.
        assert!(job.text.contains("told: on purpose") && !job.text.contains("finalize"), "{}", job.text);
        job.was_soon_over();
    }
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn the_loss_of_a_whole_host_ends_the_others() {
    let test = "on_mpi::the_loss_of_a_whole_host_ends_the_others";
    let place = |process: u32| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test} {process}"));
    let jobs = on_mpi(test, &[On::TwoHosts], || {
        let runtime = Runtime::mpi().workers(1);
        std::fs::write(place(Runtime::process_number()), std::process::id().to_string()).expect("a file");
        // All have written theirs.
        sums(&runtime, 1, nothing).expect("runs");
        let kill = || {
            known();
            let place = |process: u32| {
                let test = "on_mpi::the_loss_of_a_whole_host_ends_the_others";
                Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test} {process}"))
            };
            let both = [2, 3].map(|process| std::fs::read_to_string(place(process)).expect("a number"));
            drop(Command::new("kill").arg("-9").args(both).status());
        };
        end(&sums(&runtime, 1, kill).expect_err("a loss"));
    });
    for job in jobs {
        job.was_soon_over();
        assert!(job.text.matches("told: ").count() <= 1, "{}", job.text);
    }
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn a_deadlock_and_a_divergence_are_told_once() {
    let test = "on_mpi::a_deadlock_and_a_divergence_are_told_once";
    let jobs = cases_on_mpi(test, &["deadlock", "divergence"], &ALL, |case| {
        let runtime = Runtime::mpi().workers(1);
        let error = stuck::deadlock(&runtime);
        if case == "deadlock" {
            end(&error);
        }
        let error = stuck::one_ends_alone(&runtime, 4, 1);
        // The processes are there for another run.
        assert_eq!(sums(&runtime, 1, nothing), Ok(vec![1.5; 4]));
        end(&error);
    });
    for (_, job) in jobs {
        job.told();
    }
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn another_program_and_other_arguments_are_refused() {
    let test = "on_mpi::another_program_and_other_arguments_are_refused";
    if is_in(test) {
        end(&sums(&Runtime::mpi().workers(1), 1, nothing).expect_err("they differ"));
    }
    let other = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mpi-other-program");
    let mut program = std::fs::read(own()).expect("a program");
    program.push(0);
    // Written anew where it is still run.
    let _ = std::fs::remove_file(&other);
    std::fs::write(&other, program).expect("a file");
    std::fs::set_permissions(&other, std::fs::metadata(own()).expect("a program").permissions()).expect("a file");
    for on in possible(&[On::Here(2), On::TwoHosts]) {
        // The first process that is different: on two hosts, one of the other host.
        let (same, rest) = if on == On::TwoHosts { (2, 2) } else { (1, 1) };
        let both = |came: &str, job: Job| {
            let told = job.told();
            assert!(told.contains(&format!("{came} (must be the same in all processes): expected ")), "{told}");
            assert!(told.contains(", as in process 0, got ") && told.contains(&format!("in process {same}")), "{told}");
        };
        let job = launch(test, "program", on, &programs(test, &[(same, &own(), 1), (rest, &other, 1)]));
        both("program's file", job);
        let job = launch(test, "arguments", on, &programs(test, &[(same, &own(), 1), (rest, &own(), 2)]));
        both("arguments", job);
    }
}

/// Processor time of this process so far, in milliseconds.
fn used() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let ticks = stat.rsplit(") ").next().into_iter().flat_map(|rest| rest.split(' ').skip(11).take(2));
    // In hundredths of a second.
    ticks.map(|ticks| ticks.parse::<u64>().expect("a number")).sum::<u64>() * 10
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn a_process_that_waits_leaves_the_processors_to_others() {
    let test = "on_mpi::a_process_that_waits_leaves_the_processors_to_others";
    let jobs = on_mpi(test, &[On::Here(2), On::TwoHosts], || {
        let wait = |_: Arg<u64>| std::thread::sleep(Duration::from_secs(4));
        let outcome = Runtime::mpi().workers(1).run(move |top| async move {
            let gang = top.gang("all", 4)?;
            let total = Collective::allreduce(Operator::sum()).make(&top, &gang, "total")?;
            let body = move |shard: Shard, total: Collective<f64>| async move {
                let before = used();
                if shard.index() == 3 {
                    shard.launch(wait, (0u64.into(),)).go()?.await?;
                }
                total.call(&shard, 1.0)?.await?;
                Ok(used() - before)
            };
            top.launch_gang(&gang, &top.register("body", body), |_| ShardLaunch::new(total))?.all().await
        });
        let (used, _) = outcome.expect("runs");
        if Runtime::process_number() == 0 {
            say(&format!("used: {} ms", used[0]));
        }
        // A processor that looks all the time would use all of the four seconds.
        assert!(used[0] < 1000, "{used:?} ms");
    });
    for job in jobs {
        assert!(job.success, "{:?}: {}", job.on, job.text);
    }
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn mappers_are_replaced_in_all_processes() {
    let jobs = on_mpi("on_mpi::mappers_are_replaced_in_all_processes", &ALL, || {
        for progress in [maniple::runtime::Progress::Poll, maniple::runtime::Progress::Dedicated] {
            mappers::mappers_are_replaced_in_all_processes(Runtime::mpi().workers(1).progress(progress));
        }
    });
    for job in jobs {
        assert!(job.success && !job.text.contains("finalize"), "{:?}: {}", job.on, job.text);
    }
}

/// The tasks on the other host get their values one after the other, the most urgent ones first, although these are launched
/// last.
#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn large_values_leave_a_host_by_priority() {
    const BLOCKS: i64 = 8;
    /// 8 MiB of values.
    const BLOCK: i64 = 1 << 20;
    const A: Field<f64> = Field::new(0, "a");
    static ORDER: std::sync::Mutex<Vec<i64>> = std::sync::Mutex::new(Vec::new());
    let test = "on_mpi::large_values_leave_a_host_by_priority";
    let cases = ["Poll", "Dedicated", "ToEachPeer", "stuck"];
    let jobs = cases_on_mpi(test, &cases, &[On::Here(3), On::TwoHosts], |case| {
        let runtime = Runtime::mpi().workers(2).utility(1);
        let runtime = match case {
            "Dedicated" => runtime.progress(maniple::runtime::Progress::Dedicated),
            "ToEachPeer" => runtime.under_way(maniple::runtime::UnderWay::ToEachPeer),
            _ => runtime,
        };
        let is_stuck = case == "stuck";
        let body = move |top: Top| async move {
            let all = top.region_tree("blocks", Rect::new([0], [BLOCKS * BLOCK]), &[A.info()])?;
            let number = |mut a: Write<f64>| a.fill_with(|[at]| at as f64);
            top.launch(number, (top.region(all)?.write(A),)).on(NodeId(0)).go()?.detach();
            for block in 0..BLOCKS {
                let part = top.region(Region::new(all.tree, Rect::new([block * BLOCK], [(block + 1) * BLOCK])))?;
                let check = move |a: Read<f64>| {
                    ORDER.lock().expect("no panic").push(block);
                    // Few, so that a task is over before the next values come.
                    let (first, last) = (a.rect().lo(0), a.rect().hi(0) - 1);
                    let is_right = [first, first + 12_345, last].iter().all(|at| a.get([*at]) == *at as f64);
                    if is_right { Ok(()) } else { Err(Error::user("other values")) }
                };
                let there = top.try_launch(check, (part.read(A),)).on(NodeId(2));
                there.priority(Priority(block as u8)).go()?.detach();
            }
            top.done().await?;
            // What is told of values that have left must not hide that nobody can go on.
            if is_stuck { std::future::pending().await } else { Ok(()) }
        };
        // The second run must not be told of the first one's values.
        for _ in 0..2 {
            let is_right = match runtime.run(body) {
                Ok(_) => !is_stuck,
                Err(Error::Deadlock { .. }) => is_stuck,
                Err(_) => false,
            };
            assert!(is_right, "{case}");
            let order = std::mem::take(&mut *ORDER.lock().expect("no panic"));
            if !order.is_empty() {
                say(&format!("order {order:?}"));
            }
        }
    });
    for (case, job) in jobs {
        assert!(job.success, "{case} {:?}: {}", job.on, job.text);
        let orders: Vec<&str> = job.text.split("order [").skip(1).collect();
        assert_eq!(orders.len(), 2, "{case} {:?}: {}", job.on, job.text);
        for order in orders {
            let numbers = order.split_once(']').expect("the end of a list").0.split(", ");
            let order: Vec<i64> = numbers.map(|block| block.parse().expect("a number")).collect();
            assert_eq!(order.len(), BLOCKS as usize, "{case} {:?}", job.on);
            // The first one leaves when there is no other yet. On one host nothing leaves: the values stay in shared memory.
            let later: Vec<i64> = order.iter().copied().filter(|block| *block != 0).collect();
            assert!(job.on != On::TwoHosts || later.is_sorted_by(|a, b| a > b), "{case} {:?}: {order:?}", job.on);
        }
    }
}
