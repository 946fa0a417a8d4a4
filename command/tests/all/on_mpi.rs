//! `maniple --wire mpi` under a launcher, on this host and on two hosts made of network namespaces: the bits of the threads
//! wire, and one report. `MANIPLE_TEST_MPIRUN` names the launcher of another MPI than Open MPI, which has no second host, and
//! `MANIPLE_TEST_MPI_LIBRARY` its library.

#![cfg(target_os = "linux")]

use crate::MANIPLE;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The launcher of another MPI than Open MPI.
fn other_launcher() -> Option<String> {
    std::env::var("MANIPLE_TEST_MPIRUN").ok()
}

/// Whether the launcher is Open MPI's.
pub fn is_open_mpi() -> bool {
    other_launcher().is_none()
}

/// Like [`is_open_mpi`], and says that a test is skipped.
fn needs_open_mpi() -> bool {
    if !is_open_mpi() {
        eprintln!("SKIPPED: this needs Open MPI");
    }
    is_open_mpi()
}

/// The launcher and this number of processes.
pub fn mpirun(processes: u32) -> Vec<String> {
    let launcher = other_launcher().unwrap_or("mpirun --oversubscribe".to_owned());
    format!("{launcher} -n {processes}").split(' ').map(str::to_owned).collect()
}

fn two_hosts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/two-hosts")
}

/// Launchers of four processes: on this host, and on two if this machine can have them.
pub fn launchers() -> Vec<Vec<String>> {
    let mut launchers = vec![mpirun(4)];
    if other_launcher().is_some() {
        return launchers;
    }
    let why = Command::new(two_hosts()).arg("--why-not").output().expect("starts").stdout;
    match why.is_empty() {
        true => launchers.push(vec![two_hosts().display().to_string()]),
        false => eprintln!("SKIPPED on two hosts: {}", String::from_utf8_lossy(&why)),
    }
    launchers
}

fn command(launcher: &[String], args: &str) -> Command {
    let mut command = Command::new("timeout");
    // A signal goes to the launcher alone.
    command.args(["--foreground", "--kill-after", "5", "120"]).args(launcher);
    command.arg(MANIPLE).args(args.split(' '));
    command.envs(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"].map(|name| (name, "1")));
    command
}

fn maniple(launcher: &[String], args: &str) -> Output {
    let mut output = command(launcher, args).output().expect("the launcher is there");
    // On a busy machine Open MPI warns that an agent of its own was quicker than it.
    let text = String::from_utf8_lossy(&output.stderr);
    let told = text.split_inclusive('\n').filter(|line| !line.contains("plm:rsh: Warning: setpgid"));
    output.stderr = told.collect::<String>().into_bytes();
    output
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The processes of the command that have this argument.
fn processes_with(argument: &str) -> usize {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    // Empty for a process that has ended.
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
#[ignore = "needs mpirun; `./check full` runs it"]
fn the_stencil_has_the_bits_of_the_threads_wire() {
    let on_two = launchers().into_iter().nth(1);
    for collective in ["recursive-doubling", "aggregation"] {
        let file = path(&format!("{collective}.npy"));
        let of = format!(
            "stencil --cells 40 --iterations 8 --repeat 2 --collective {collective} --output {}",
            file.display()
        );
        let own = Command::new(MANIPLE).args(of.split(' ')).args(["--shards", "9"]).output().expect("starts");
        assert!(own.status.success(), "{own:?}");
        let expected = std::fs::read(&file).expect("an output");
        assert_eq!(expected.len(), 128 + 9 * 40 * 8);
        for (launcher, workers, mapper, progress) in [
            (Some(mpirun(4)), 2, "collective", "poll"),
            (Some(mpirun(4)), 1, "round-robin", "dedicated"),
            (Some(mpirun(3)), 2, "collective", "dedicated"),
            (on_two.clone(), 1, "default", "poll"),
            (on_two.clone(), 3, "collective", "dedicated"),
            (on_two.clone(), 2, "round-robin", "poll"),
            (on_two.clone(), 1, "first", "dedicated"),
            (on_two.clone(), 2, "numa", "dedicated"),
        ] {
            let Some(launcher) = launcher else { continue };
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
#[ignore = "needs mpirun; `./check full` runs it"]
fn the_microbenchmarks_run() {
    for launcher in launchers() {
        for args in [
            "collective --kind allreduce --chained --elements 1 --shards 6 --iterations 20 --repeat 2",
            "collective --kind allreduce --chained --elements 131072 --shards 5 --iterations 5 --repeat 2",
            "barrier --shards 4 --iterations 20 --repeat 1",
            "collective --kind barrier --shards 4 --iterations 20",
            "collective --kind all-to-all --shards 6 --iterations 20 --elements 1,5000",
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
#[ignore = "needs mpirun; `./check full` runs it"]
fn a_failed_run_leaves_the_output_file_as_it_was() {
    let (input, output) = (path("zeros.txt"), path("kept.npy"));
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
#[ignore = "needs mpirun; `./check full` runs it"]
fn a_trace_is_one_file_on_one_clock() {
    for launcher in launchers() {
        let file = path("trace.json");
        let args = "stencil --workers 2 --shards 9 --cells 40 --iterations 8 --repeat 2 --trace";
        let output = maniple(&launcher, &format!("{args} {}", file.display()));
        assert!(output.status.success() && output.stderr.is_empty(), "{launcher:?}: {output:?}");
        let trace: Value = serde_json::from_slice(&std::fs::read(&file).expect("a trace")).expect("JSON");
        let about = &trace["otherData"];
        let hosts: Vec<&str> = about["hosts"].as_array().expect("hosts").iter().filter_map(Value::as_str).collect();
        assert_eq!(hosts.len(), 4, "{about}");
        // The clocks of two hosts may differ by a quarter of an hour. A busy machine makes the bound wide.
        let error = about["clock_error_us"].as_f64();
        assert_eq!(error.is_some(), hosts[0] != hosts[3], "{about}");
        let error = error.unwrap_or(0.0);
        assert!((0.0..1e6).contains(&error), "{about}");
        let events = trace["traceEvents"].as_array().expect("a list");
        let number = |e: &Value, of: &str| e[of].as_f64().unwrap_or_else(|| panic!("{of} of {e}"));
        let rows: HashSet<(u64, u64)> =
            events.iter().map(|e| (number(e, "pid") as u64, number(e, "tid") as u64)).collect();
        assert_eq!(rows, (0..8).map(|p| (p / 2 + 1, p + 1)).collect());
        let advances = events.iter().filter(|e| e["ph"] == "X" && e["name"] == "advance");
        assert_eq!(advances.count(), 9 * 8);
        let begun: HashMap<&str, &Value> =
            events.iter().filter(|e| e["ph"] == "s").map(|e| (e["id"].as_str().expect("an id"), e)).collect();
        let mut between = 0;
        for end in events.iter().filter(|e| e["ph"] == "f") {
            let begin = begun[end["id"].as_str().expect("an id")];
            let of_host = |e: &Value| hosts[number(e, "pid") as usize - 1];
            let within = if of_host(begin) == of_host(end) { 0.0 } else { error };
            between += u32::from(of_host(begin) != of_host(end));
            assert!(number(end, "ts") + within >= number(begin, "ts"), "{launcher:?} {about}: {begin} {end}");
        }
        assert_eq!(between > 0, hosts[0] != hosts[3]);
        // All is within the run, whose times begin at 0.
        let last = events.iter().map(|e| number(e, "ts")).fold(0.0, f64::max);
        assert!(last < 100e6, "{last} us");
    }
}

/// In a trace of a build for tests each message is received under the name under which it was sent. Notices that values have left
/// for another host, which nobody has sent, must not be taken for messages.
#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn messages_of_a_flow_are_traced_as_they_were_sent() {
    for launcher in launchers() {
        let file = path("flow.json");
        let args = "cholesky --workers 2 --utility 1 --size 700 --tile 128 --repeat 2 --trace";
        let output = maniple(&launcher, &format!("{args} {}", file.display()));
        assert!(output.status.success() && output.stderr.is_empty(), "{launcher:?}: {output:?}");
        let trace: Value = serde_json::from_slice(&std::fs::read(&file).expect("a trace")).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("a list");
        let ends = events.iter().filter(|e| e["ph"] == "f" && e["name"] == "Values").count();
        assert!(ends > 10, "{ends}");
    }
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn a_trace_that_cannot_be_written_is_told_once() {
    for launcher in launchers() {
        for command in ["stencil", "collective --kind allreduce"] {
            let output = maniple(&launcher, &format!("{command} --trace /nowhere/trace.json"));
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && output.stdout.is_empty(), "{launcher:?} {command}: {output:?}");
            let told = text.matches("maniple: error: /nowhere/trace.json: can't be written").count();
            assert_eq!((told, text.matches("maniple: error").count()), (1, 1), "{launcher:?} {command}: {text}");
        }
    }
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn ctrl_c_ends_all_processes_with_one_message() {
    for (launcher, iterations) in launchers().iter().zip(["1000001", "1000002"]) {
        let args = format!("stencil --workers 1 --shards 4 --cells 40 --repeat 1000000 --iterations {iterations}");
        let mut job = command(launcher, &args);
        let mut job = job.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the launcher is there");
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

/// In namespaces of their own, as in containers, processes can't open what processes of other containers have.
#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn processes_in_containers_of_one_machine_say_that_they_use_mpi_and_share_its_processors() {
    if !needs_open_mpi() {
        return;
    }
    let unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"];
    if !Command::new(unshare[0]).args(&unshare[1..]).arg("true").status().is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: namespaces are refused here");
        return;
    }
    // The memory that Open MPI shares itself ends a plain program in C there with a segmentation fault.
    let launcher = "mpirun --oversubscribe --bind-to none --mca pml ob1 --mca btl self,tcp -n 2";
    let launcher: Vec<String> = launcher.split(' ').chain(unshare).map(str::to_owned).collect();
    let of = "stencil --shards 5 --cells 40 --iterations 8 --repeat 2";
    let (output, expected) = (path("containers.npy"), path("no-containers.npy"));
    let own = format!("{of} --output {}", expected.display());
    assert!(Command::new(MANIPLE).args(own.split(' ')).status().expect("starts").success());
    let ended = maniple(&launcher, &format!("{of} --output {}", output.display()));
    let text = errors(&ended);
    assert!(ended.status.success(), "{ended:?}");
    assert!(std::fs::read(&output).expect("an output") == std::fs::read(&expected).expect("an output"));
    let warned = text.matches("maniple: warning: process 1: processes of ").count();
    assert!(warned == 1 && text.matches("can't share memory, and use MPI instead").count() == 1, "{text}");
    let shown = maniple(&launcher, "machine --format json");
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("one JSON object");
    let workers = (std::thread::available_parallelism().expect("known").get() / 2).max(1);
    for process in shown["processes"].as_array().expect("processes") {
        assert_eq!(process["workers"], workers, "{shown}");
    }
}

/// With the variables that srun gives a shell, Open MPI ends the process before it can say anything.
#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn an_interactive_shell_of_slurm_is_told_the_way_out() {
    if !needs_open_mpi() {
        return;
    }
    let mut shell = Command::new(MANIPLE);
    let step = "SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 SLURM_JOB_ID=12 SLURM_JOBID=12 SLURM_STEP_ID=0 SLURM_STEPID=0 \
                SLURM_NTASKS=4 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_NNODES=1 SLURM_TASKS_PER_NODE=4";
    shell.args(["stencil", "--shards", "3"]).envs(step.split_whitespace().filter_map(|set| set.split_once('=')));
    let ended = shell.output().expect("starts");
    let text = errors(&ended);
    assert!(!ended.status.success() && ended.stdout.is_empty(), "{ended:?}");
    let said = "maniple: warning: SLURM has started 4 processes without a plug-in for MPI";
    assert!(text.contains(said) && text.contains("SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0"), "{text}");
    // Without the variable it is a run on threads.
    shell.env_remove("SLURM_STEP_NUM_TASKS");
    assert!(shell.output().expect("starts").status.success());
}

/// Before it has parsed its options a process has met the others, so they miss it.
#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn a_process_with_other_options_ends_all() {
    for (first, said) in [
        ("stencil --shards none", "invalid value 'none'"),
        ("--version", "process 0 of the run, on "),
        ("kernel", "this command runs in one process"),
    ] {
        let began = Instant::now();
        let mut job = command(&mpirun(1), first);
        job.args([":", "-n", "3", MANIPLE, "stencil", "--workers", "1", "--shards", "4"]);
        let output = job.output().expect("the launcher is there");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && began.elapsed() < Duration::from_secs(20), "{first}: {output:?}");
        assert_eq!(text.matches("maniple: error").count(), 1, "{first}: {text}");
        assert!(text.contains(said) && !text.contains("finalize"), "{first}: {text}");
    }
}

#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn a_library_of_another_mpi_is_told() {
    let other = if other_launcher().is_none() { "libmpich.so.12" } else { "libmpi.so.40" };
    let mut job = command(&mpirun(2), "collective --kind allreduce --iterations 10");
    let output = job.env("MANIPLE_MPI", other).output().expect("timeout is there");
    if errors(&output).contains(&format!("{other}: cannot open")) {
        return eprintln!("SKIPPED: {other} is not there");
    }
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    // They have not met, so each may tell it, but the launcher ends the others when the first has ended.
    let told = text.lines().filter(|line| line.contains("maniple: error: ") && line.contains("another MPI")).count();
    assert!((1..=2).contains(&told) && text.matches("maniple: error").count() == told, "{text}");
}

/// Libraries that break one promise each, and else do what the real one does.
#[test]
#[ignore = "needs mpirun; `./check full` runs it"]
fn a_library_that_is_not_what_it_says_is_refused() {
    let real = std::env::var("MANIPLE_TEST_MPI_LIBRARY").unwrap_or_else(|_| "libmpi.so.40".into());
    // A path, or a name that the linker and the loader find.
    let (real, folder) = match real.rsplit_once('/') {
        Some((folder, _)) => (real.clone(), folder.to_owned()),
        None => (format!("-l:{real}"), String::new()),
    };
    for (index, (function, told)) in [
        (
            "int MPI_Type_size(long type, int *size) { *size = 4; return 0; }",
            "the size of its datatypes: MPI_BYTE has 4 bytes",
        ),
        ("int MPI_Comm_rank(long of, int *rank) { *rank = 7; return 0; }", "ranks: this process is rank 7 of 2"),
        ("int MPI_Allreduce() { return 0; }", "an allreduce: Sum is NaN, not 3"),
        ("int MPI_Isend() { return 13; }", "a message to itself: error 13"),
        ("int MPI_Mrecv() { return 0; }", "a message to itself: 9 bytes from rank"),
        (
            "int MPI_Improbe(int from, int tag, long of, int *found) { *found = 0; return 0; }",
            "a message to itself: none in",
        ),
        (
            "int MPI_Get_library_version(char *to, int *len) { to[0] = 'X'; to[1] = 0; return 0; }
          int MPI_Abi_get_version(int *major, int *minor) { *major = 2; return 0; }",
            "X has version 2 of MPI's binary interface",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let (source, library) = (path(&format!("{index}.c")), path(&format!("libmpi-{index}.so")));
        std::fs::write(&source, function).expect("a file");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-o"]).args([&library, &source]).args([
            "-Wl,--no-as-needed",
            &format!("-Wl,-rpath,{folder}"),
            &real,
        ]);
        assert!(cc.status().expect("a C compiler").success());
        let mut job = command(&mpirun(2), "collective --kind allreduce --iterations 10");
        let output = job.env("MANIPLE_MPI", &library).output().expect("timeout is there");
        let text = errors(&output);
        assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
        assert!(text.contains(told) && text.contains(&library.display().to_string()), "{function}: {text}");
    }
}
