//! The other programs that rows are compared with. If one is not installed, the answer says how to get it.

use maniple_command::Failure;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The results of one run of `maniple compare mpi`.
pub struct Pair {
    /// Microseconds of an allreduce here.
    pub ours_us: f64,
    /// Microseconds of an allreduce with MPI.
    pub mpi_us: f64,
    /// The yardstick right after both, in nanoseconds.
    pub cache_line_ns: Option<f64>,
}

fn this_program() -> Result<Command, Failure> {
    let program = std::env::current_exe().map_err(|e| Failure::Run(format!("can't find this program: {e}")))?;
    Ok(Command::new(program))
}

/// Measures an allreduce of 64-bit floats here and with MPI, with one rank for each shard.
pub fn allreduce_beside_mpi(shards: u32, elements: usize, iterations: usize) -> Result<Result<Pair, String>, Failure> {
    let mut command = this_program()?;
    command.args(["compare", "mpi", "--program", "allreduce", "--workers", "2", "--repeat", "1", "--format", "json"]);
    for (name, number) in [("--shards", shards as usize), ("--elements", elements), ("--iterations", iterations)] {
        command.args([name, &number.to_string()]);
    }
    let output = command.output().map_err(|e| Failure::Run(format!("can't start this program again: {e}")))?;
    if !output.status.success() {
        return refused(output.status.code(), &String::from_utf8_lossy(&output.stderr)).map(Err);
    }
    let record: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match (record["collective_us"].as_f64(), record["mpi_collective_us"].as_f64()) {
        (Some(ours_us), Some(mpi_us)) => {
            Ok(Ok(Pair { ours_us, mpi_us, cache_line_ns: record["cache_line_ns"].as_f64() }))
        }
        _ => Err(Failure::Run(format!("expected the times of both sides from {command:?}, found {record}"))),
    }
}

/// The reason why there is nothing to compare with, if no launcher of MPI can be started. All else is a failure.
fn refused(code: Option<i32>, stderr: &str) -> Result<String, Failure> {
    let message = stderr.trim();
    let message = message.strip_prefix("maniple: error: ").unwrap_or(message);
    // The arguments are right, so exit code 2 is about the launcher.
    match code {
        Some(2) => Ok(message.replace('\n', " ")),
        _ => Err(Failure::Run(message.into())),
    }
}

/// Nanoseconds of one of StarPU's tasks with one data access, submitted and run by one worker.
pub fn starpu_task_ns() -> Result<f64, String> {
    let mut command = starpu("tasks_overhead", "1")?;
    command.args(["-i", "200000", "-b", "1"]);
    let output = command.output().map_err(|e| format!("can't start {command:?}: {e}"))?;
    // It reports on stderr.
    let text = String::from_utf8_lossy(&output.stderr);
    task_ns(&text)
        .ok_or_else(|| format!("expected a line `Per task: … usecs` from {command:?}, found {}", output.status))
}

/// The time of submission and execution together, in StarPU's output.
fn task_ns(text: &str) -> Option<f64> {
    let us: f64 =
        text.lines().find_map(|line| line.strip_prefix("Per task: ")?.strip_suffix(" usecs")?.parse().ok())?;
    Some(us * 1000.0)
}

/// Seconds of StarPU's factorisation of a matrix of 32-bit floats on two workers.
pub fn starpu_factor_s(size: usize, tile: usize) -> Result<f64, String> {
    let mut command = starpu("cholesky_implicit", "2")?;
    command.args(["-size", &size.to_string(), "-nblocks", &size.div_ceil(tile).to_string()]);
    let text = output_of(command.env("OPENBLAS_NUM_THREADS", "1"))?;
    factor_ms(&text)
        .map(|ms| ms / 1e3)
        .ok_or_else(|| format!("expected a line of size, ms and GFlop/s from {command:?}"))
}

/// The milliseconds in the last line of StarPU's table.
fn factor_ms(text: &str) -> Option<f64> {
    text.lines().rfind(|line| !line.trim().is_empty())?.split_whitespace().nth(1)?.parse().ok()
}

/// Seconds of OpenBLAS's `dpotrf` on two threads.
pub fn dpotrf_s(size: usize, tile: usize) -> Result<f64, String> {
    factored_by(("cc", "-lopenblas"), &[], "2", (size, tile))
        .map_err(|e| format!("OpenBLAS: {e}; on Debian, as root: `apt-get install gcc libopenblas-dev`"))
}

/// Seconds of ScaLAPACK's `pdpotrf` on two ranks of one thread.
pub fn pdpotrf_s(size: usize, tile: usize) -> Result<f64, String> {
    let launcher = ["mpirun", "--oversubscribe", "-n", "2"];
    factored_by(("mpicc", "-lscalapack-openmpi"), &launcher, "1", (size, tile)).map_err(|e| {
        format!("ScaLAPACK: {e}; on Debian, as root: `apt-get install openmpi-bin libscalapack-openmpi-dev`")
    })
}

/// Compiles the program that factors a matrix with a library, and runs it.
fn factored_by(
    (compiler, library): (&str, &str),
    launcher: &[&str],
    threads: &str,
    (size, tile): (usize, usize),
) -> Result<f64, String> {
    let program = std::env::temp_dir().join(format!("maniple-factor-{}", std::process::id()));
    let source = program.with_extension("c");
    std::fs::write(&source, include_str!("factor.c")).map_err(|e| format!("can't write {}: {e}", source.display()))?;
    let mut compile = Command::new(compiler);
    let which = if compiler == "mpicc" { "-DSCALAPACK" } else { "-DLAPACK" };
    compile.args(["-O2", which, "-o"]).args([&program, &source]).arg(library);
    let compiled = output_of(&mut compile);
    let mut run = match launcher {
        [] => Command::new(&program),
        [first, rest @ ..] => {
            let mut run = Command::new(first);
            run.args(rest).arg(&program);
            run
        }
    };
    run.args([size.to_string(), tile.to_string()]).env("OPENBLAS_NUM_THREADS", threads);
    run.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    let seconds = compiled.and_then(|_| output_of(&mut run));
    for file in [&source, &program] {
        let _ = std::fs::remove_file(file);
    }
    let seconds = seconds?;
    seconds.trim().parse().map_err(|_| format!("expected seconds from {run:?}, found `{seconds}`"))
}

/// What a command writes to stdout.
fn output_of(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("can't start {command:?}: {e}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{command:?}: {}", output.status)),
    }
}

/// Seconds of our own factorisation of 64-bit floats on two processes with a worker each.
pub fn factored_on_processes_s(size: usize, tile: usize) -> Result<f64, Failure> {
    let mut command = this_program()?;
    command.args(["cholesky", "--wire", "processes", "--processes", "2", "--workers", "1", "--repeat", "1"]);
    command.args(["--format", "json", "--size", &size.to_string(), "--tile", &tile.to_string()]);
    let text = output_of(&mut command).map_err(Failure::Run)?;
    let record: Value = serde_json::from_str(&text).unwrap_or_default();
    let missing = || Failure::Run(format!("expected seconds from {command:?}, found {record}"));
    record["seconds"].as_f64().filter(|_| record["verified"] == true).ok_or_else(missing)
}

/// One of StarPU's programs, with this number of workers.
fn starpu(name: &str, workers: &str) -> Result<Command, String> {
    let missing = || format!("StarPU's {name} is not installed; on Debian, as root: `apt-get install starpu-examples`");
    let mut command = Command::new(starpu_program(name).ok_or_else(missing)?);
    command.envs([("STARPU_NCPU", workers), ("STARPU_SILENT", "1"), ("STARPU_NCUDA", "0"), ("STARPU_NOPENCL", "0")]);
    Ok(command)
}

/// StarPU's program: in the path, or in Debian's directory, which is named after the architecture.
fn starpu_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|directory| directory.join(name));
    let libraries = Path::new("/usr/lib").read_dir().into_iter().flatten().flatten();
    let packaged = libraries.map(|entry| entry.path().join("starpu/examples").join(name));
    in_path.chain(packaged).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_launcher_is_no_failure() {
        let reason = refused(Some(2), "maniple: error: can't start mpirun:\nno such file\n").expect("a reason");
        assert_eq!(reason, "can't start mpirun: no such file");
        let Err(Failure::Run(message)) = refused(Some(1), "maniple: error: 1 of 1 pairs not verified; MPI: x\n") else {
            panic!("a failure");
        };
        assert_eq!(message, "1 of 1 pairs not verified; MPI: x");
        assert!(refused(None, "killed").is_err());
    }

    #[test]
    fn starpu_s_factorisation_is_found() {
        assert_eq!(factor_ms("# size\tms\tGFlop/s\n4096\t257\t89.1\n\n"), Some(257.0));
        assert_eq!(factor_ms("# size\n"), None);
    }

    #[test]
    fn starpu_s_total_is_found() {
        let text = "#tasks : 200000\nPer task submit: 13.952752 usecs\n\nTotal: 2.798940 secs\nPer task: 2.5 usecs\n";
        assert_eq!(task_ns(text), Some(2500.0));
        assert_eq!(task_ns("Per task submit: 13.952752 usecs\n"), None);
    }
}
