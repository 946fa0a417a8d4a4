//! The processes of a program, and how they agree. They meet once: processes of a launcher when they make their first runtime
//! for it, others at the first run.

use super::copies;
use super::link::Carrier;
use super::lobby::{GiveUp, Lobby};
use super::segment;
use crate::Error;
use crate::wire::bind::{Binding, Places};
use maniple_mapper::Topology;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// How processes are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    /// By the first of them, on this host, this many.
    Copies(u32),
    /// By a launcher of MPI.
    Launcher,
}

/// What a launcher knows of processes on several hosts.
pub trait Between: Send + Sync {
    /// For the first process of each host: gives bytes to the first processes of the others, and returns the bytes of all, in
    /// the order of their numbers. Waits for all of them. If they are not for all, only the first one gets them.
    fn allgather(&self, bytes: &[u8], for_all: bool) -> Result<Vec<Vec<u8>>, Error>;
    /// Takes in what other hosts say of lost processes. False if MPI does not return, as when one is lost.
    fn listens(&self) -> bool;
    /// What carries messages between processes of different hosts.
    fn carrier(&self) -> Arc<dyn Carrier>;
}

/// The processes of this program. They live as long as the first one.
pub struct Meeting {
    /// This process's number.
    pub rank: u32,
    /// For each process, the first process of its host: those that share memory.
    pub hosts: Vec<u32>,
    /// For each process, the first one on its machine. Containers may be hosts of their own on one machine.
    machines: Vec<u32>,
    started: Started,
    lobby: Arc<Lobby>,
    between: Option<Arc<dyn Between>>,
    /// For each process, the name of its host.
    pub names: Vec<String>,
    /// The processors of its host that each process may use, by the system's numbers.
    pub cpus: Vec<Vec<u32>>,
    /// The part of its machine's processors that each process can have at least.
    pub share: u32,
    /// How many processors of this machine its processes may use.
    processors: usize,
    /// Why they have not met. Then no run can.
    problem: Option<Error>,
    /// Why processes that a launcher believes to be on one host share no memory, in the first one that noticed.
    pub unshared: Option<String>,
}

/// The processes of this program, once they have met; or why processes of a launcher can't. The lock is held while they meet.
static MET: OnceLock<Result<Arc<Meeting>, Error>> = OnceLock::new();
static MEETS: Mutex<()> = Mutex::new(());

/// None while they meet, too: whoever asks may have to end the process.
fn met() -> Option<&'static Arc<Meeting>> {
    MET.get()?.as_ref().ok()
}

/// Whether this process is the one that reports an error of all. Where a process is lost, the first of those that are left
/// on its host, who know of it without MPI; where none is, the first of all that are left.
pub fn reports() -> bool {
    let Some(meeting) = met() else { return number() == 0 };
    // Another host may have said that a process is lost.
    if meeting.lobby.lost().is_none() && !meeting.between.as_ref().is_none_or(|between| between.listens()) {
        return false;
    }
    let lost = meeting.lobby.lost();
    let of_lost = |rank: &u32| lost.is_some_and(|lost| meeting.hosts[*rank as usize] == meeting.hosts[lost as usize]);
    let all_have_left = lost.is_some_and(|lost| meeting.lobby.is_of_left_host(lost));
    let left = || (0..meeting.size()).filter(|rank| Some(*rank) != lost && !(all_have_left && of_lost(rank)));
    let beside = left().find(of_lost);
    if lost == Some(meeting.rank) && beside.is_none() {
        // For an error of its own, which nobody else of its host can tell.
        return true;
    }
    let first = beside.or_else(|| left().next()).unwrap_or(0);
    meeting.hosts[meeting.rank as usize] == meeting.hosts[first as usize] && meeting.lobby.reports()
}

/// Says why this process ends, for the others to tell if they miss it.
pub fn last_words(text: &str) {
    match met() {
        Some(meeting) => meeting.lobby.last_words(text),
        None => copies::last_words(text),
    }
}

impl Meeting {
    /// Meets the other processes, in the first call; collective.
    ///
    /// # Errors
    ///
    /// They can't meet; or this process has met others.
    pub fn of(started: Started) -> Result<Arc<Self>, Error> {
        let _meets = MEETS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(met) = MET.get() {
            return met.clone().and_then(|met| met.whole());
        }
        let mut met = match started {
            Started::Copies(processes) => {
                let lobby = copies::lobby(processes)?;
                // Its number among the copies, also where a launcher has given it another one.
                let (rank, hosts) = (copies::number().unwrap_or(0), vec![0; lobby.ranks().len()]);
                Self::new(started, rank, hosts, lobby, None)
            }
            Started::Launcher => match super::mpi::meet() {
                Ok(met) => met,
                // Meeting is collective: this process does not try it alone.
                Err(e) => return MET.get_or_init(|| Err(e)).clone(),
            },
        };
        let cpus: Vec<u32> = Topology::here().cpus.iter().map(|cpu| cpu.os).collect();
        match met.all(&(super::host(), machine(), cpus)) {
            Ok(all) => {
                let mut seen = HashMap::new();
                for (rank, (name, machine, cpus)) in (0..).zip(all) {
                    let host = met.hosts[rank as usize];
                    // Without a name, those that share memory are on one.
                    let machine = if machine.is_empty() { host.to_string() } else { machine };
                    met.machines.push(*seen.entry(machine).or_insert(rank));
                    met.names.push(name);
                    met.cpus.push(cpus);
                }
                met.count_processors();
            }
            Err(e) => met.problem = Some(e),
        }
        let met = Arc::new(met);
        let _ = MET.set(Ok(met.clone()));
        // From now on a warning has this process's number.
        met.say_how_memory_is_shared();
        met.whole()
    }

    fn whole(self: &Arc<Self>) -> Result<Arc<Self>, Error> {
        self.problem.clone().map_or_else(|| Ok(self.clone()), Err)
    }

    /// Before they have told each other their names and processors.
    pub fn new(
        started: Started,
        rank: u32,
        hosts: Vec<u32>,
        lobby: Arc<Lobby>,
        between: Option<Arc<dyn Between>>,
    ) -> Self {
        let (machines, names, cpus) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            rank,
            hosts,
            machines,
            started,
            lobby,
            between,
            names,
            cpus,
            share: 1,
            processors: 1,
            problem: None,
            unshared: None,
        }
    }

    /// How many processes there are.
    pub fn size(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// How many processes this one's host has.
    pub fn on_host(&self) -> usize {
        self.hosts.iter().filter(|host| **host == self.hosts[self.rank as usize]).count()
    }

    /// The processes on this one's machine.
    fn on_machine(&self) -> impl Iterator<Item = u32> {
        let own = self.machines[self.rank as usize];
        (0..self.size()).filter(move |rank| self.machines[*rank as usize] == own)
    }

    /// Counts the processors that the processes of each machine may use.
    fn count_processors(&mut self) {
        let mut of_machines: HashMap<u32, (usize, HashSet<u32>)> = HashMap::new();
        for (machine, cpus) in self.machines.iter().zip(&self.cpus) {
            let (processes, all) = of_machines.entry(*machine).or_default();
            *processes += 1;
            all.extend(cpus);
        }
        let share = of_machines.values().map(|(processes, all)| all.len() / processes).min();
        self.share = share.map_or(1, |share| share.max(1) as u32);
        self.processors = of_machines.get(&self.machines[self.rank as usize]).map_or(1, |(_, all)| all.len());
    }

    /// Warns, once a host, if its processes share memory in another way than they should, or none.
    fn say_how_memory_is_shared(&self) {
        if let Some(why) = &self.unshared {
            log::warn!("processes of {} can't share memory, and use MPI instead: {why}", super::host());
        }
        let is_first = self.hosts[self.rank as usize] == self.rank && self.on_host() > 1;
        if let Some((directory, refused)) = is_first.then(segment::directory).flatten() {
            let (directory, free) = (directory.display(), segment::limit() >> 20);
            log::warn!(
                "the call memfd_create is refused ({refused}): processes of {} share memory in {directory}, which has {free} MiB",
                super::host()
            );
        }
    }

    /// Whether there are more workers on this machine than processors for them.
    pub fn is_crowded(&self, workers: u32) -> bool {
        let workers = workers as usize;
        let bound = self.cpus[self.rank as usize].len();
        workers > bound || workers * self.on_machine().count() > self.processors
    }

    /// The places of this process's workers. A launcher's binding is kept; processes that it has not bound share the
    /// machine's processors.
    pub fn places(&self, binding: &Binding, workers: u32) -> Result<Places, Error> {
        let own = &self.cpus[self.rank as usize];
        let unbound = self.on_machine().all(|rank| self.cpus[rank as usize] == *own);
        let sharing: Vec<u32> = if unbound { self.on_machine().collect() } else { vec![self.rank] };
        let places = Places::of(binding, workers.saturating_mul(sharing.len() as u32))?;
        let before = sharing.iter().position(|rank| *rank == self.rank).unwrap_or(0) as u32;
        Ok(places.from(self.rank * workers, before * workers))
    }

    /// An error if the processes were started in another way than a run wants.
    pub fn check(&self, wanted: Started) -> Result<(), Error> {
        if self.started == wanted {
            return Ok(());
        }
        let shown = |started| match started {
            Started::Copies(n) => format!("the {n} processes of `Runtime::processes({n})`"),
            Started::Launcher => format!("the {} processes of `Runtime::mpi()`", self.size()),
        };
        let expected = format!("{}, as in the first run", shown(self.started));
        Err(Error::misuse("a run on several processes", expected, shown(wanted)))
    }

    /// Whether a process has been lost.
    pub fn has_failed(&self) -> bool {
        self.lobby.has_failed()
    }

    /// Gathers the values of all; collective, and waits.
    ///
    /// # Errors
    ///
    /// A process has ended without taking part, or has taken part in another allgather. A value of another type.
    pub fn all<T: Serialize + for<'a> Deserialize<'a>>(&self, value: &T) -> Result<Vec<T>, Error> {
        let coded =
            |e: postcard::Error| Error::Encoding { what: "what processes agree on".into(), message: e.to_string() };
        let encoded = postcard::to_stdvec(value).map_err(coded);
        let mut bytes = encoded.clone().unwrap_or_default();
        // The others then get what they can't decode, rather than nothing.
        let most = self.lobby.most(self.hosts.len());
        bytes.truncate(most);
        let total = |gifts| self.total(gifts, true);
        let gifts = self.lobby.allgather(&bytes, total).map_err(|e| self.with_host(e))?;
        let given = encoded?.len();
        if given > most {
            let expected = format!("at most {most} bytes from each of {} processes", self.size());
            return Err(Error::misuse(
                "what processes agree on",
                expected,
                format!("{given} from process {}", self.rank),
            ));
        }
        gifts.iter().map(|bytes| postcard::from_bytes(bytes).map_err(coded)).collect()
    }

    /// Gives bytes, at most [`Self::most`], to the first process. It gets the bytes of all, in the order of their numbers, and
    /// the others get none; collective, and waits.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::all`].
    pub fn gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let mut all = Vec::new();
        let total = |gifts| {
            all = self.total(gifts, false)?;
            // Nothing is told.
            Ok(Vec::new())
        };
        self.lobby.allgather(bytes, total).map_err(|e| self.with_host(e))?;
        Ok(if self.rank == 0 { super::lobby::parts(&all) } else { Vec::new() })
    }

    /// The most bytes that a process can give in an allgather.
    pub fn most(&self) -> usize {
        self.lobby.most(self.hosts.len())
    }

    /// The loss of a process of another host, with the host's name.
    fn with_host(&self, error: Error) -> Error {
        match error {
            Error::ProcessLost { process, host, why } => {
                let host = self.names.get(process as usize).cloned().unwrap_or(host);
                Error::ProcessLost { process, host, why }
            }
            other => other,
        }
    }

    /// The gifts of all hosts. If they are not for all, only the first process gets them.
    fn total(&self, gifts: Vec<u8>, for_all: bool) -> Result<Vec<u8>, Error> {
        let Some(between) = &self.between else { return Ok(gifts) };
        let mut firsts: Vec<u32> = self.hosts.clone();
        firsts.sort_unstable();
        firsts.dedup();
        let mut of_hosts = Vec::new();
        for bytes in between.allgather(&gifts, for_all)? {
            of_hosts.push(super::lobby::parts(&bytes).into_iter());
        }
        let mut total = Vec::new();
        for host in &self.hosts {
            let at = firsts.iter().position(|first| first == host).and_then(|at| of_hosts.get_mut(at));
            super::lobby::append(&mut total, &at.and_then(Iterator::next).unwrap_or_default());
        }
        Ok(total)
    }

    /// What carries messages to other hosts, if there are any.
    pub fn carrier(&self) -> Option<Arc<dyn Carrier>> {
        self.between.as_ref().map(|between| between.carrier())
    }

    /// A run begins that ends with the next allgather. `give_up` ends it at once, for all processes.
    pub fn begin(&self, give_up: GiveUp) {
        self.lobby.begin(give_up);
    }

    pub fn end(&self) {
        self.lobby.end();
    }
}

/// The number of this process in its program. Processes of a launcher that have not met are alone.
pub fn number() -> u32 {
    met().map(|meeting| meeting.rank).or_else(copies::number).unwrap_or(0)
}

/// How many processes have met.
pub fn count() -> u32 {
    met().map_or(1, |meeting| meeting.size())
}

/// What tells this machine from others in all of its containers. Empty if the system does not say.
fn machine() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}
