//! Runs on the processes of Open MPI, on this host and on two hosts made of network namespaces. Each test has `mpirun` start
//! its own binary; those processes run the test's body.

#![cfg(all(target_os = "linux", feature = "mpi"))]
#![allow(missing_docs)]

#[path = "common/switch.rs"]
mod switch;

use maniple::prelude::*;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The name of the test whose body a process runs.
const BODY: &str = "MANIPLE_TEST_BODY";
/// After this long a launcher is killed that has no processes left.
const ALONE: Duration = Duration::from_secs(20);
/// Generous, for a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum On {
    /// So many processes on this host.
    Here(u32),
    /// Two on each of two hosts.
    TwoHosts,
}

/// How a job of several processes has ended, and what they and the launcher have written.
struct Job {
    on: On,
    success: bool,
    text: String,
}

impl Job {
    /// The only line in which a process has told an error.
    fn told(&self) -> &str {
        let lines: Vec<&str> = self.text.lines().filter(|line| line.contains("told: ")).collect();
        assert!(!self.success && lines.len() == 1, "{:?}: {}", self.on, self.text);
        assert!(!self.text.contains("finalize"), "{:?}: {}", self.on, self.text);
        lines[0]
    }
}

fn two_hosts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/two-hosts")
}

/// Whether this machine can have two hosts. Says so if it can't.
fn can_have_two_hosts() -> bool {
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
        words.extend(["--exact", "--nocapture"].map(str::to_owned));
        words.push(format!("--test-threads={threads}"));
    }
    words
}

fn launch(test: &str, on: On, words: &[String]) -> Job {
    let mut command = match on {
        On::Here(_) => Command::new("mpirun"),
        On::TwoHosts => Command::new(two_hosts()),
    };
    if let On::Here(_) = on {
        command.arg("--oversubscribe");
    }
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mpi {test} {on:?}.txt"));
    let file = std::fs::File::create(&log).expect("a file");
    command.args(["-x", BODY]).args(words).env(BODY, test).stdin(Stdio::null());
    command.envs(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"].map(|name| (name, "1")));
    command.stdout(file.try_clone().expect("a file")).stderr(file);
    let mut mpirun = command.spawn().expect("mpirun of Open MPI is there");
    let began = Instant::now();
    let status = loop {
        if let Some(status) = mpirun.try_wait().expect("a child") {
            break status;
        }
        if began.elapsed() > ALONE && has_no_children(mpirun.id()) {
            // Open MPI's launcher may hang when its processes have failed at the same time. They are gone.
            mpirun.kill().expect("a child");
        }
        if began.elapsed() > LIMIT {
            // It ends its processes.
            Command::new("kill").arg(mpirun.id().to_string()).status().expect("starts");
            mpirun.wait().expect("a child");
            panic!("{test} hangs on {on:?}: {}", std::fs::read_to_string(&log).unwrap_or_default());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Job {
        on,
        success: status.success(),
        text: String::from_utf8_lossy(&std::fs::read(&log).expect("a log")).into_owned(),
    }
}

fn has_no_children(process: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let mut children = tasks.map(|task| std::fs::read_to_string(task.path().join("children")));
    children.all(|list| list.is_ok_and(|list| list.trim().is_empty()))
}

fn own() -> PathBuf {
    std::env::current_exe().expect("a program")
}

/// Runs `body` in the processes of each job. Returns how the jobs have ended.
fn on_mpi(test: &str, jobs: &[On], body: impl FnOnce()) -> Vec<Job> {
    if std::env::var(BODY).is_ok_and(|name| name == test) {
        body();
        return Vec::new();
    }
    let hosts = jobs.contains(&On::TwoHosts) && can_have_two_hosts();
    let jobs = jobs.iter().filter(|on| hosts || **on != On::TwoHosts);
    let job = |on: &On| {
        let processes = if let On::Here(n) = on { *n } else { 4 };
        launch(test, *on, &programs(test, &[(processes, &own(), 1)]))
    };
    jobs.map(job).collect()
}

/// Says an error as a program does, and ends.
fn end(error: &Error) -> ! {
    match Runtime::reports_errors() {
        true => eprintln!("told: {error}"),
        false => Runtime::last_words(&error.to_string()),
    }
    std::process::exit(3)
}

/// A run of four shards that sum. The last one does `last` in its tenth round.
fn sums(runtime: &Runtime, elements: usize, last: fn()) -> Result<Vec<f64>, Error> {
    let (results, _) = runtime.run(move |top| async move {
        let gang = top.gang("all", 4)?;
        let options = maniple::collectives::CollectiveOptions { elements, ..Default::default() };
        let total = Allreduce::with(&top, &gang, "total", Operator::sum(), options)?;
        let body = move |shard: Shard, total: Allreduce<f64>| async move {
            let mut x = vec![f64::from(shard.index()); elements];
            for round in 0..20 {
                if round == 10 && shard.index() == 3 {
                    last();
                }
                x = total.call_vec(&shard, x)?.await?.iter().map(|x| x / 4.0).collect();
            }
            Ok(x[elements - 1])
        };
        top.launch(&gang, &top.register("body", body), |_| ShardLaunch::new(total))?.all().await
    })?;
    Ok(results)
}

fn nothing() {}

const ALL: [On; 3] = [On::Here(2), On::Here(4), On::TwoHosts];

#[test]
fn sums_have_the_exact_answer_and_mpi_is_finalised() {
    let jobs = on_mpi("sums_have_the_exact_answer_and_mpi_is_finalised", &ALL, || {
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
fn a_panic_is_told_once() {
    let jobs = on_mpi("a_panic_is_told_once", &ALL, || {
        let error = sums(&Runtime::mpi().workers(1), 1, || panic!("on purpose")).expect_err("a panic");
        end(&error);
    });
    for job in jobs {
        assert!(job.told().contains("shard 3") && job.told().contains("on purpose"), "{}", job.text);
    }
}

#[test]
fn a_lost_process_is_named_with_its_shards() {
    let jobs = on_mpi("a_lost_process_is_named_with_its_shards", &[On::Here(2), On::Here(4), On::TwoHosts], || {
        let kill = || drop(Command::new("kill").args(["-9", &std::process::id().to_string()]).status());
        let error = sums(&Runtime::mpi().workers(1), 1, kill).expect_err("a loss");
        end(&error);
    });
    for job in jobs {
        let last = if job.on == On::Here(2) { 1 } else { 3 };
        let told = job.told();
        assert!(told.contains(&format!("process {last} of the run, on ")), "{told}");
        assert!(told.contains("shards 2, 3 of gang `all`") || told.contains("shard 3 of gang `all`"), "{told}");
    }
}

#[test]
fn an_error_of_one_process_between_runs_is_told_by_those_who_miss_it() {
    let jobs = on_mpi("an_error_of_one_process_between_runs_is_told_by_those_who_miss_it", &ALL, || {
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

#[test]
fn a_deadlock_and_a_divergence_are_told_once() {
    let jobs = on_mpi("a_deadlock_and_a_divergence_are_told_once", &ALL, || {
        let runtime = Runtime::mpi().workers(1);
        let run = |diverge: bool| {
            let outcome = runtime.run(move |top| async move {
                let gang = top.gang("all", 4)?;
                if diverge && Runtime::process_number() == 1 {
                    return Ok(Vec::new());
                }
                let total = Allreduce::new(&top, &gang, "total", Operator::sum())?;
                let body = |shard: Shard, total: Allreduce<f64>| async move {
                    match shard.index() {
                        3 => Ok(0.0),
                        _ => total.call(&shard, 1.0)?.await,
                    }
                };
                top.launch(&gang, &top.register("body", body), |_| ShardLaunch::new(total))?.all().await
            });
            outcome.map(drop).expect_err("it can't go on")
        };
        let error = run(false);
        assert!(error.to_string().contains("missing in call 0 of `total`: shard 3"), "{error}");
        let error = run(true);
        assert!(matches!(error, Error::Deadlock { .. } | Error::Divergence { .. }), "{error}");
        // The processes are there for another run.
        assert_eq!(sums(&runtime, 1, nothing), Ok(vec![1.5; 4]));
        end(&error);
    });
    for job in jobs {
        job.told();
    }
}

#[test]
fn another_program_and_other_arguments_are_refused() {
    let test = "another_program_and_other_arguments_are_refused";
    if std::env::var(BODY).is_ok_and(|name| name == test) {
        end(&sums(&Runtime::mpi().workers(1), 1, nothing).expect_err("they differ"));
    }
    let other = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mpi-other-program");
    let mut program = std::fs::read(own()).expect("a program");
    program.push(0);
    // Written anew where it is still run.
    let _ = std::fs::remove_file(&other);
    std::fs::write(&other, program).expect("a file");
    std::fs::set_permissions(&other, std::fs::metadata(own()).expect("a program").permissions()).expect("a file");
    let job = launch(test, On::Here(2), &programs(test, &[(1, &own(), 1), (1, &other, 1)]));
    assert!(job.told().contains("program's file, which all processes have alike"), "{}", job.text);
    assert!(job.told().contains("in process 1"), "{}", job.text);
    let job = launch(test, On::Here(2), &programs(test, &[(1, &own(), 1), (1, &own(), 2)]));
    assert!(job.told().contains("arguments, which all processes have alike"), "{}", job.text);
}

/// Processor time of this process so far, in milliseconds.
fn used() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let ticks = stat.rsplit(") ").next().into_iter().flat_map(|rest| rest.split(' ').skip(11).take(2));
    // In hundredths of a second.
    ticks.map(|ticks| ticks.parse::<u64>().expect("a number")).sum::<u64>() * 10
}

#[test]
fn a_process_that_waits_leaves_the_processors_to_others() {
    let test = "a_process_that_waits_leaves_the_processors_to_others";
    let jobs = on_mpi(test, &[On::Here(2), On::TwoHosts], || {
        let wait = |_: Arg<u64>| std::thread::sleep(Duration::from_secs(4));
        let outcome = Runtime::mpi().workers(1).run(move |top| async move {
            let gang = top.gang("all", 4)?;
            let total = Allreduce::new(&top, &gang, "total", Operator::sum())?;
            let body = move |shard: Shard, total: Allreduce<f64>| async move {
                let before = used();
                if shard.index() == 3 {
                    shard.launch(wait, (0u64.into(),)).go()?.await?;
                }
                total.call(&shard, 1.0)?.await?;
                Ok(used() - before)
            };
            top.launch(&gang, &top.register("body", body), |_| ShardLaunch::new(total))?.all().await
        });
        let (used, _) = outcome.expect("runs");
        if Runtime::process_number() == 0 {
            eprintln!("used: {} ms", used[0]);
        }
        // A processor that looks all the time would use all of the four seconds.
        assert!(used[0] < 1000, "{used:?} ms");
    });
    for job in jobs {
        assert!(job.success, "{:?}: {}", job.on, job.text);
    }
}

#[test]
fn mappers_are_replaced_in_all_processes() {
    let jobs = on_mpi("mappers_are_replaced_in_all_processes", &ALL, || {
        for progress in [maniple::runtime::Progress::Poll, maniple::runtime::Progress::Dedicated] {
            switch::mappers_are_replaced_in_all_processes(Runtime::mpi().workers(1).progress(progress));
        }
    });
    for job in jobs {
        assert!(job.success && !job.text.contains("finalize"), "{:?}: {}", job.on, job.text);
    }
}
