//! Starts the processes of the wire `processes`: the first process starts the others, as copies of itself.

use super::lobby::Lobby;
use super::watch::{Watched, life, watch, watch_child};
use crate::{Error, Runtime};
use rustix::process::{Pid, getppid};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};

/// Tells a process that it is a copy: its number, how many there are, and where the lobby and the life of the first one are.
const VARIABLE: &str = "MANIPLE_PROCESS";

/// The lobby of `processes` processes. The first one starts the copies, and a copy meets the process that started it.
pub fn lobby(processes: u32) -> Result<Arc<Lobby>, Error> {
    let Some(call) = CopyArguments::here() else { return start(processes) };
    if call.orphan {
        return Err(Error::ProcessLost { process: 0, host: super::host(), why: "it is gone".into() });
    }
    let lobby = Arc::new(call.open().map_err(|e| cannot("meet", &e))?);
    // That one watches the others.
    let first = Watched::process((call.first_id(), call.life), 0).map_err(|e| cannot("watch the first one", &e))?;
    watch(&lobby, vec![first], true)?;
    Ok(lobby)
}

fn start(size: u32) -> Result<Arc<Lobby>, Error> {
    if !(1..=Runtime::MOST_PROCESSES).contains(&size) {
        return Err(Error::misuse("number of processes", format!("1 to {}", Runtime::MOST_PROCESSES), size));
    }
    let lobby = Arc::new(Lobby::new((0..size).collect()).map_err(|e| cannot("share memory", &e))?);
    let life = life().map_err(|e| cannot("be watched", &e))?;
    let mut copies = Vec::new();
    let started = (1..size).try_for_each(|rank| {
        copies.push(start_copy(rank, size, (lobby.file(), life))?);
        Ok(())
    });
    let watched = |copies: Vec<Child>| (1..).zip(copies).try_for_each(|(i, copy)| watch_child(&lobby, copy, i));
    match started.map_err(|e: io::Error| cannot("be started", &e)) {
        // The copies see it if this process can't watch them.
        Ok(()) => watched(copies).inspect_err(|_| lobby.has_ended(0, None))?,
        Err(e) => {
            // Nobody else knows of them yet.
            copies.iter_mut().for_each(|copy| drop(copy.kill().and_then(|()| copy.wait())));
            return Err(e);
        }
    }
    Ok(lobby)
}

fn start_copy(rank: u32, size: u32, (lobby, life): (i32, i32)) -> io::Result<Child> {
    let mut arguments = std::env::args_os();
    let mut copy = Command::new(program());
    if let Some(name) = arguments.next() {
        copy.arg0(name);
    }
    copy.args(arguments).stdin(Stdio::null());
    copy.env(VARIABLE, format!("{rank} {size} {} {lobby} {life}", std::process::id()));
    copy.spawn()
}

/// The file that this process runs: by its path, unless another one has that path by now.
fn program() -> PathBuf {
    let own = Path::new("/proc/self/exe");
    let same = |path: &PathBuf| {
        let file = |path: &Path| std::fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
        file(path).is_some_and(|there| Some(there) == file(own))
    };
    std::env::current_exe().ok().filter(same).unwrap_or_else(|| own.to_owned())
}

/// What a copy is told.
struct CopyArguments {
    rank: u32,
    size: u32,
    /// The first process, and the numbers of the lobby's file and of its life there.
    first: Pid,
    file: i32,
    life: i32,
    /// The first process had ended before this one asked.
    orphan: bool,
}

impl CopyArguments {
    /// The call of this process, if it is a copy.
    fn here() -> Option<&'static Self> {
        static CALL: OnceLock<Option<CopyArguments>> = OnceLock::new();
        CALL.get_or_init(Self::read).as_ref()
    }

    /// Opens the lobby that the first process has made.
    fn open(&self) -> io::Result<Lobby> {
        Lobby::open(self.rank as usize, (0..self.size).collect(), (self.first_id(), self.file))
    }

    fn first_id(&self) -> u32 {
        self.first.as_raw_pid().cast_unsigned()
    }

    fn read() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        let mut numbers = text.split(' ').map_while(|n| n.parse::<u32>().ok());
        let (rank, size, parent) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let (file, life) = (numbers.next()?.cast_signed(), numbers.next()?.cast_signed());
        let first = Pid::from_raw(parent.cast_signed())?;
        // A program that a copy has started is no copy. Its first process is there, but is not its parent.
        let orphan = getppid() != Some(first) && is_over(first);
        let is_copy = orphan || getppid() == Some(first);
        is_copy.then_some(Self { rank, size, first, file, life, orphan })
    }
}

/// Whether a process has ended, even if nobody has asked how.
fn is_over(process: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // After its name, which may be any text.
    stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['Z', 'X']))
}

/// The number of this process, if it is a copy.
pub fn number() -> Option<u32> {
    CopyArguments::here().map(|call| call.rank)
}

/// Says why this process ends, if it is a copy that has not met the others yet. They may wait for it.
pub fn last_words(text: &str) {
    let copy = CopyArguments::here().filter(|call| !call.orphan);
    // If the lobby can't be opened, nobody can be told.
    if let Some(Ok(lobby)) = copy.map(CopyArguments::open) {
        lobby.last_words(text);
    }
}

pub fn cannot(what: &str, e: &io::Error) -> Error {
    let came = format!("the error `{e}`; the chapter *Processes and hosts* of the guide says what they need");
    Error::misuse("processes of this program", format!("a system on which they can {what}"), came)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{WaitId, WaitIdOptions, waitid};

    #[test]
    fn a_process_is_over_before_and_after_somebody_asks_how_it_ended() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("starts");
        let pid = Pid::from_raw(child.id().cast_signed()).expect("a number");
        assert!(!is_over(pid));
        child.kill().expect("a child");
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).expect("a child");
        assert!(is_over(pid));
        child.wait().expect("a child");
        assert!(is_over(pid));
    }
}
