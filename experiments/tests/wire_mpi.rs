//! `maniple --wire mpi` under the launcher of Open MPI, on this host and on two hosts made of network namespaces: the bits
//! of the threads wire, and one report.

#![cfg(all(target_os = "linux", feature = "mpi"))]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const MANIPLE: &str = env!("CARGO_BIN_EXE_maniple");

fn two_hosts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/two-hosts")
}

/// Launchers of four processes: on this host, and on two if this machine can have them.
fn launchers() -> Vec<Vec<String>> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut launchers = vec![words("mpirun --oversubscribe -n 4")];
    let why = Command::new(two_hosts()).arg("--why-not").output().expect("starts").stdout;
    match why.is_empty() {
        true => launchers.push(vec![two_hosts().display().to_string()]),
        false => eprintln!("SKIPPED on two hosts: {}", String::from_utf8_lossy(&why)),
    }
    launchers
}

fn command(launcher: &[String], args: &str) -> Command {
    let (program, before) = launcher.split_first().expect("a launcher");
    let mut command = Command::new(program);
    command.args(before).arg(MANIPLE).args(args.split(' '));
    command.envs(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"].map(|name| (name, "1")));
    command
}

fn maniple(launcher: &[String], args: &str) -> Output {
    command(launcher, args).output().expect("mpirun of Open MPI is there")
}

/// What has come on stderr, but for a warning of Open MPI's launcher on a busy machine: its agent was faster than itself.
fn errors(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().filter(|line| !line.contains("plm:rsh: Warning: setpgid")).collect()
}

/// The processes of the command that have this argument.
fn processes_with(argument: &str) -> usize {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    // Empty for a process that is over.
    let lines = numbers.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let of_command = |line: &Vec<u8>| {
        let mut words = line.split(|byte| *byte == 0);
        words.next() == Some(MANIPLE.as_bytes()) && words.any(|word| word == argument.as_bytes())
    };
    lines.filter(of_command).count()
}

fn path(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("wire-mpi-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    directory.join(name)
}

#[test]
fn the_stencil_has_the_bits_of_the_threads_wire() {
    for collective in ["recursive-doubling", "aggregation"] {
        let file = path(&format!("{collective}.f64"));
        let of = format!(
            "stencil --cells 40 --iterations 8 --repeat 2 --collective {collective} --output {}",
            file.display()
        );
        let own = Command::new(MANIPLE).args(of.split(' ')).args(["--shards", "9"]).output().expect("starts");
        assert!(own.status.success(), "{own:?}");
        let expected = std::fs::read(&file).expect("an output");
        assert_eq!(expected.len(), 9 * 40 * 8);
        for (launcher, workers, mapper, progress) in [
            (0, 2, "collective", "poll"),
            (0, 1, "round-robin", "dedicated"),
            (1, 1, "default", "poll"),
            (1, 3, "collective", "dedicated"),
            (1, 2, "round-robin", "poll"),
            (1, 1, "first", "dedicated"),
            (1, 2, "numa", "dedicated"),
        ] {
            let Some(launcher) = launchers().into_iter().nth(launcher) else { continue };
            std::fs::remove_file(&file).expect("an output");
            let on = format!("{of} --shards 9 --workers {workers} --mapper {mapper} --progress {progress}");
            let output = maniple(&launcher, &on);
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && errors(&output).is_empty(), "{launcher:?} {on}: {output:?}");
            assert_eq!(text.matches("2 of 2 runs verified").count(), 1, "{launcher:?} {on}: {text}");
            assert!(std::fs::read(&file).expect("an output") == expected, "{launcher:?} {on}");
        }
    }
}

#[test]
fn the_microbenchmarks_run() {
    for launcher in launchers() {
        for args in [
            "allreduce --shards 6 --iterations 20 --repeat 2",
            "allreduce --shards 5 --elements 131072 --iterations 5 --repeat 2",
            "barrier --shards 4 --iterations 20 --repeat 1",
            "gang --shards 4 --launches 20 --repeat 1",
        ] {
            let output = maniple(&launcher, &format!("{args} --workers 1"));
            assert!(output.status.success() && errors(&output).is_empty(), "{launcher:?} {args}: {output:?}");
            // Process 0 alone prints.
            let text = String::from_utf8_lossy(&output.stdout);
            assert_eq!(text.matches("program ").count(), 1, "{launcher:?} {args}: {text}");
        }
    }
}

#[test]
fn a_failed_run_leaves_the_output_file_as_it_was() {
    let (input, output) = (path("zeros.txt"), path("kept.f64"));
    std::fs::write(&input, "0\n".repeat(64)).expect("a file");
    std::fs::write(&output, "before").expect("a file");
    for launcher in launchers() {
        let args = format!("stencil --workers 1 --shards 4 --input {} --output {}", input.display(), output.display());
        let ended = maniple(&launcher, &args);
        let text = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success(), "{ended:?}");
        assert_eq!(text.matches("maniple: error").count(), 1, "{text}");
        assert!(text.contains("there is no next vector") && !text.contains("finalize"), "{text}");
        assert_eq!(std::fs::read_to_string(&output).expect("the file"), "before");
    }
}

#[test]
fn ctrl_c_ends_all_processes_with_one_message() {
    for (launcher, iterations) in launchers().iter().zip(["1000001", "1000002"]) {
        let args = format!("stencil --workers 1 --shards 4 --cells 40 --repeat 1000000 --iterations {iterations}");
        let mut job = command(launcher, &args);
        let mut job = job.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("mpirun of Open MPI is there");
        let began = Instant::now();
        while processes_with(iterations) < 4 {
            assert!(began.elapsed() < Duration::from_secs(60), "{launcher:?}: not started");
            std::thread::sleep(Duration::from_millis(20));
        }
        // They have met, or not yet: either way all end.
        std::thread::sleep(Duration::from_millis(1500));
        Command::new("kill").args(["-INT", &job.id().to_string()]).status().expect("starts");
        let known = Instant::now();
        let lines = BufReader::new(job.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let text = lines.collect::<Vec<_>>().join("\n");
        let status = job.wait().expect("a child");
        while processes_with(iterations) > 0 && known.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        // 1 to 2 s on a machine that does nothing else.
        let took = known.elapsed();
        assert!(!status.success() && took < Duration::from_secs(10), "{launcher:?}: {status}, {took:?}: {text}");
        // None if they have not met.
        assert!(text.matches("maniple: ").count() <= 1, "{launcher:?}: {text}");
    }
}

/// Before it has parsed its options a process has met the others, so they miss it.
#[test]
fn a_process_with_other_options_ends_all() {
    for (first, said) in [
        ("stencil --shards none", "invalid value 'none'"),
        ("--version", "process 0 of the run, on "),
        ("kernel", "this command runs in one process"),
    ] {
        let began = Instant::now();
        let mut job = Command::new("mpirun");
        job.args(["--oversubscribe", "-n", "1", MANIPLE]).args(first.split(' '));
        job.args([":", "-n", "3", MANIPLE, "stencil", "--workers", "1", "--shards", "4"]);
        job.envs(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"].map(|name| (name, "1")));
        let output = job.output().expect("mpirun of Open MPI is there");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && began.elapsed() < Duration::from_secs(30), "{first}: {output:?}");
        assert_eq!(text.matches("maniple: error").count(), 1, "{first}: {text}");
        assert!(text.contains(said) && !text.contains("finalize"), "{first}: {text}");
    }
}
