//! A stencil with checkpoints that is killed again and again.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const SHARDS: usize = 6;
const ITERATIONS: usize = 1_000;

fn stencil(output: &Path, iterations: usize) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_maniple"));
    command.args(["stencil", "--cells", "500"]).stdout(Stdio::null()).stderr(Stdio::piped());
    command.args(["--shards", &SHARDS.to_string(), "--iterations", &iterations.to_string()]);
    command.arg("--output").arg(output);
    command
}

/// Adds processes and workers, one of four ways.
fn on(way: usize, command: &mut Command) {
    match way {
        0 => command.args(["--workers", "1"]),
        1 => command.args(["--workers", "3"]),
        2 => command.args(["--wire", "processes", "--processes", "2", "--workers", "1"]),
        _ => command.args(["--wire", "processes", "--processes", "3", "--workers", "2"]),
    };
}

fn result(output: Output) -> Result<(), String> {
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// The result of a run that nobody disturbs.
fn ended(command: &mut Command) -> Result<(), String> {
    result(command.output().expect("starts"))
}

/// The result of a run, or `None` if it took longer than `after` and was killed with all its processes.
fn run_or_kill(command: &mut Command, after: Duration) -> Option<Result<(), String>> {
    let child = command.process_group(0).spawn().expect("starts");
    let group = rustix::process::Pid::from_child(&child);
    let (over, end) = mpsc::channel();
    std::thread::spawn(move || over.send(child.wait_with_output().expect("a child")));
    let output = end.recv_timeout(after).unwrap_or_else(|_| {
        // The run may have ended meanwhile.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        end.recv().expect("its end")
    });
    (output.status.signal() != Some(9)).then(|| result(output))
}

/// A stencil whose vector is known from a run without checkpoints.
struct Runs {
    dir: tempfile::TempDir,
    expected: Vec<u8>,
}

impl Runs {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let undisturbed = dir.path().join("undisturbed.npy");
        ended(stencil(&undisturbed, ITERATIONS).args(["--repeat", "1"])).expect("a run");
        Self { expected: std::fs::read(undisturbed).expect("a vector"), dir }
    }

    fn output(&self) -> PathBuf {
        self.dir.path().join("disturbed.npy")
    }

    fn checkpoints(&self) -> PathBuf {
        self.dir.path().join("checkpoints")
    }

    fn restart(&self, way: usize, iterations: usize) -> Command {
        let mut command = stencil(&self.output(), iterations);
        command.arg("--checkpoint").arg(self.checkpoints()).args(["--every", "100", "--restart"]);
        on(way, &mut command);
        command
    }

    /// The step of the newest checkpoint, or 0.
    fn newest(&self) -> usize {
        let entries = std::fs::read_dir(self.checkpoints()).into_iter().flatten();
        let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        names.filter_map(|name| name.strip_prefix("checkpoint-")?.parse::<usize>().ok()).max().unwrap_or(0)
    }

    /// Compares the vector of a run that has ended, and removes that and the checkpoints.
    fn compare(&self, what: &str) {
        assert_eq!(self.newest(), ITERATIONS, "{what}");
        let vector = std::fs::read(self.output()).expect("a vector");
        assert!(vector == self.expected, "{what}: another vector");
        std::fs::remove_file(self.output()).expect("removed");
        std::fs::remove_dir_all(self.checkpoints()).expect("removed");
    }
}

/// Kills runs at random moments, `times` or more, and compares the vectors of at least `whole` runs that went on from a checkpoint.
fn killed(times: usize, whole: usize, seed: u64) {
    let runs = Runs::new();
    let began = Instant::now();
    ended(&mut runs.restart(0, ITERATIONS)).expect("a run");
    let usual = began.elapsed();
    runs.compare("without a kill");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut cut, mut compared) = (0, 0);
    for run in 0.. {
        let at = format!("seed {seed}, run {run}, after {cut} kills and {compared} ends");
        assert!(run < 20 * (times + whole), "{at}");
        if cut >= times && compared >= whole {
            return;
        }
        let before = runs.newest();
        // After enough kills, those that go on from a checkpoint are left to end.
        let after = if cut >= times && before > 0 { Duration::from_secs(600) } else { usual.mul_f64(random.f64()) };
        match run_or_kill(&mut runs.restart(random.usize(..4), ITERATIONS), after) {
            None => {
                cut += 1;
                assert!(runs.newest() >= before, "{at}: a checkpoint was lost");
            }
            Some(result) => {
                assert_eq!(result, Ok(()), "{at}");
                runs.compare(&at);
                compared += usize::from(before > 0);
            }
        }
    }
}

#[test]
fn a_killed_run_goes_on_with_the_same_bits() {
    killed(6, 1, 1);
}

#[test]
#[ignore = "takes a minute"]
fn a_run_that_is_killed_200_times_has_the_same_bits() {
    killed(200, 20, 2);
}

/// Each run goes on where the one before ended, with another number of processes.
#[test]
fn a_run_goes_on_with_more_and_fewer_processes() {
    let runs = Runs::new();
    for (way, until) in [(2, 300), (3, 500), (0, 700), (3, 800), (2, ITERATIONS)] {
        ended(&mut runs.restart(way, until)).expect("a run");
        assert_eq!(runs.newest(), until);
    }
    runs.compare("with other numbers of processes");
}

/// Where a file may not get larger than this, the run ends with an error, and the checkpoints before stay.
#[test]
fn a_full_disk_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = |limit: &str, iterations: &str| {
        let own = env!("CARGO_BIN_EXE_maniple");
        // The signal would end the process. Without it a write fails, as on a full disk.
        let script = format!("trap '' XFSZ; ulimit -f {limit}; exec {own} \"$@\"");
        let mut command = Command::new("bash");
        command.args([
            "-c",
            &script,
            "bash",
            "stencil",
            "--shards",
            "2",
            "--cells",
            "4000",
            "--iterations",
            iterations,
        ]);
        command.arg("--checkpoint").arg(dir.path().join("c")).args(["--every", "10", "--restart"]);
        ended(command.stdout(Stdio::null()).stderr(Stdio::piped()))
    };
    let names = || {
        let entries = std::fs::read_dir(dir.path().join("c")).expect("a directory");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(run("unlimited", "25"), Ok(()));
    let before = names();
    let error = run("20", "45").unwrap_err();
    assert!(error.contains("File too large") && error.contains("checkpoint-00000000000000000030.part-"), "{error}");
    assert_eq!(names(), before);
    assert_eq!(run("unlimited", "45"), Ok(()));
}
