//! A stencil with checkpoints that is killed again and again.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const SHARDS: usize = 6;
const ITERATIONS: usize = 1_000;

fn stencil(output: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_maniple"));
    command.args(["stencil", "--cells", "500"]).stdout(Stdio::null()).stderr(Stdio::piped());
    command.args(["--shards", &SHARDS.to_string(), "--iterations", &ITERATIONS.to_string()]);
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

fn ended(child: Child) -> Result<(), String> {
    let output = child.wait_with_output().expect("a child");
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// The process and its copies.
fn kill(child: &Child) {
    let text =
        |number: u32| std::fs::read_to_string(format!("/proc/{number}/task/{number}/children")).unwrap_or_default();
    let children = text(child.id());
    let numbers = children.split_whitespace().filter_map(|number| number.parse().ok()).chain([child.id()]);
    for pid in numbers.filter_map(|number: u32| rustix::process::Pid::from_raw(number as i32)) {
        // It may be over.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

fn killed(times: usize, seed: u64) {
    let dir = tempfile::tempdir().expect("a directory");
    let [undisturbed, disturbed] = ["undisturbed.npy", "disturbed.npy"].map(|name| dir.path().join(name));
    let checkpoints = dir.path().join("checkpoints");
    let began = Instant::now();
    ended(stencil(&undisturbed).spawn().expect("starts")).expect("a run");
    let longest = began.elapsed();
    let mut random = fastrand::Rng::with_seed(seed);
    let restart = |random: &mut fastrand::Rng| {
        let mut command = stencil(&disturbed);
        command.arg("--checkpoint").arg(&checkpoints).args(["--every", "100", "--restart"]);
        on(random.usize(..4), &mut command);
        command.spawn().expect("starts")
    };
    let newest = || {
        let entries = std::fs::read_dir(&checkpoints).into_iter().flatten();
        let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        names.filter_map(|name| name.strip_prefix("checkpoint-")?.parse::<usize>().ok()).max().unwrap_or(0)
    };
    let (mut cut, mut runs, mut went_on, mut before) = (0, 0, 0, 0);
    while cut < times || went_on == 0 {
        runs += 1;
        assert!(
            runs < 10 * times,
            "seed {seed}: of {runs} runs {cut} were killed, {went_on} went on from a checkpoint"
        );
        let mut child = restart(&mut random);
        std::thread::sleep(longest.mul_f64(2.0 * random.f64()));
        if let Some(status) = child.try_wait().expect("a child") {
            assert!(status.success(), "seed {seed}, after {cut} kills: {}", ended(child).unwrap_err());
            std::fs::remove_dir_all(&checkpoints).expect("removed");
            before = 0;
            continue;
        }
        kill(&child);
        let _killed = child.wait();
        cut += 1;
        assert!(newest() >= before, "seed {seed}, after {cut} kills: a checkpoint was lost");
        went_on += usize::from(before > 0 && newest() > before);
        before = newest();
    }
    let ran = ended(restart(&mut random));
    assert_eq!(ran, Ok(()), "seed {seed}, after {cut} kills");
    let [undisturbed, disturbed] = [undisturbed, disturbed].map(|path| std::fs::read(path).expect("a vector"));
    assert!(undisturbed == disturbed, "seed {seed}, after {cut} kills: another vector");
}

#[test]
fn a_killed_run_goes_on_with_the_same_bits() {
    killed(6, 1);
}

#[test]
#[ignore = "takes half a minute"]
fn a_run_that_is_killed_200_times_has_the_same_bits() {
    killed(200, 2);
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
        ended(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts"))
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
