//! Starts an MPI program under its launcher, and makes sure that it ends.

use crate::Failure;
use crate::options::wire::processes;
use maniple_stencil::plural;
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// The most bytes that are read of each output: enough for any answer or error.
const OUTPUT_LIMIT: u64 = 1 << 20;

/// The most lines of an error that are passed on.
const COMPLAINT_LINES: usize = 30;

/// The time that a launcher has to end its ranks before all of them are killed.
const GRACE: Duration = Duration::from_secs(5);

/// `mpirun`, or another launcher; or none.
pub struct Launcher {
    program: String,
    arguments: Vec<String>,
    open_mpi: bool,
    /// Whether this program is started once, and starts other processes itself.
    alone: bool,
    timeout: Duration,
}

impl Launcher {
    /// Asks the launcher which MPI it belongs to.
    pub fn new(command: &str, timeout: Duration) -> Result<Self, Failure> {
        let mut words = command.split_whitespace().map(String::from);
        let program = words.next().ok_or_else(|| Failure::Usage("--mpirun: expected a launcher, found none".into()))?;
        let mut launcher = Self { program, arguments: words.collect(), open_mpi: false, alone: false, timeout };
        let mut version = Command::new(&launcher.program);
        version.arg("--version");
        // A launcher without --version may still work.
        launcher.open_mpi = launcher.finish(version)?.out.contains("Open MPI");
        Ok(launcher)
    }

    /// No launcher: this program is started once.
    pub fn none(timeout: Duration) -> Self {
        Self { program: "maniple".into(), arguments: Vec::new(), open_mpi: false, alone: true, timeout }
    }

    /// Runs this program with these arguments in `ranks` ranks. The answer follows `mark` on the last line of their output
    /// that has it.
    pub fn run<T: DeserializeOwned>(&self, ranks: u32, arguments: &[String], mark: &str) -> Result<T, Failure> {
        let this = std::env::current_exe()
            .map_err(|e| Failure::Run(format!("can't find this program, to start it as ranks: {e}")))?;
        let mut command = Command::new(if self.alone { this.as_os_str() } else { self.program.as_ref() });
        if !self.alone {
            command.args(&self.arguments).args(["-n", &ranks.to_string()]);
            if self.open_mpi {
                // With enough cores it changes neither the binding of ranks nor the way they wait.
                command.arg("--oversubscribe");
            }
            command.arg(this);
        }
        command.args(arguments);
        let ended = self.finish(command)?;
        let number = if self.alone { processes(ranks as usize) } else { plural(ranks as usize, "rank") };
        let (launcher, ranks) = (&self.program, number);
        if !ended.status.success() {
            let message = format!("{launcher} with {ranks} ended with {}", ended.status);
            return Err(Failure::Run(message + &ended.complaint()));
        }
        let Some((_, answer)) = ended.out.lines().rev().find_map(|line| line.split_once(mark)) else {
            let printed = match ended.out.lines().next() {
                Some(line) => format!("its output begins `{}`", line.chars().take(80).collect::<String>()),
                None => "it printed nothing".into(),
            };
            let hint = "is it the launcher of an MPI (--mpirun)?";
            let message = format!("{launcher} with {ranks} ended without an answer; {printed}; {hint}");
            return Err(Failure::Run(message + &ended.complaint()));
        };
        serde_json::from_str(answer)
            .map_err(|e| Failure::Run(format!("{launcher} with {ranks} gave an answer that can't be read: {e}")))
    }

    /// Waits for a command, up to the time-out.
    fn finish(&self, mut command: Command) -> Result<Ended, Failure> {
        let launcher = &self.program;
        if is_root() {
            // Open MPI refuses to run as root without these. In a container there is often no other user.
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| {
            Failure::Usage(format!(
                "can't start {launcher}: {e}; install MPI (on Debian, as root: apt-get install openmpi-bin), or name its \
                 launcher with --mpirun"
            ))
        })?;
        let pid = child.id();
        let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
        let (ended, status) = mpsc::channel();
        thread::spawn(move || ended.send(child.wait()));

        let deadline = Instant::now() + self.timeout;
        let Some(status) = within(&status, deadline) else {
            return Err(self.out_of_time(pid, &status, &err));
        };
        let status = status.map_err(|e| Failure::Run(format!("can't wait for {launcher}: {e}")))?;
        let soon = Instant::now() + GRACE;
        let Some(out) = within(&out, soon) else {
            let message =
                format!("{launcher} ended with {status}, but a process that it has started still holds its output");
            return Err(Failure::Run(message));
        };
        Ok(Ended { status, out, err: within(&err, soon).unwrap_or_default() })
    }

    /// Ends a command that takes too long, with all processes that it has started.
    fn out_of_time(&self, pid: u32, status: &Receiver<io::Result<ExitStatus>>, err: &Receiver<String>) -> Failure {
        let all = family(pid);
        signal(&all, Signal::TERM);
        let soon = Instant::now() + GRACE;
        // An output ends when the last process that holds it has ended.
        let (status, complaint) = (within(status, soon), within(err, soon));
        if status.is_none() {
            signal(&family(pid), Signal::KILL);
        }
        if complaint.is_none() {
            signal(&all, Signal::KILL);
        }
        let message = format!(
            "{} did not end within {} s and was ended; if it needs longer, give it more time with --timeout",
            self.program,
            self.timeout.as_secs()
        );
        Failure::Run(message + &tail(complaint.as_deref().unwrap_or_default()))
    }
}

/// A command that has ended: its status and its outputs.
struct Ended {
    status: ExitStatus,
    out: String,
    err: String,
}

impl Ended {
    fn complaint(&self) -> String {
        tail(&self.err)
    }
}

/// The last lines of stderr.
fn tail(err: &str) -> String {
    let lines: Vec<&str> = err.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(COMPLAINT_LINES)..];
    if last.is_empty() { String::new() } else { format!("; it said:\n{}", last.join("\n")) }
}

/// Reads an output to the end, in a thread of its own. Both outputs are read at once: a full one would block its writer.
fn reader(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (done, text) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // The text before an error may still help.
        let _ = pipe.map(|pipe| pipe.take(OUTPUT_LIMIT).read_to_end(&mut bytes));
        done.send(String::from_utf8_lossy(&bytes).into_owned())
    });
    text
}

fn within<T>(receiver: &Receiver<T>, deadline: Instant) -> Option<T> {
    receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
}

/// Whether this process runs as root. The owner of a process's directory is its effective user.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// A process, and all its descendants.
fn family(pid: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let parent = fs::read_to_string(entry.path().join("stat")).ok().and_then(|stat| {
            // The parent is the second field after the name, which is in parentheses and may contain some.
            stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
        });
        if let (Some(pid), Some(parent)) = (pid, parent) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(pid) = family.get(next) {
        family.extend(children.remove(pid).unwrap_or_default());
        next += 1;
    }
    family
}

/// Sends a signal to processes. Some of them may have ended already.
fn signal(pids: &[u32], signal: Signal) {
    for pid in pids.iter().filter_map(|&pid| Pid::from_raw(pid.try_into().ok()?)) {
        let _ = kill_process(pid, signal);
    }
}
