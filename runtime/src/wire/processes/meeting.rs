//! The processes of a program, and how they agree. They meet once: those of a launcher when they make their first runtime
//! for it, others at the first run.

use super::copies;
use super::link::Carrier;
use super::lobby::{GiveUp, Lobby};
use crate::Error;
use crate::wire::bind::{Binding, Places};
use maniple_mapper::Topology;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// How processes are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    /// By the first of them, on this host, so many.
    Copies(u32),
    /// By a launcher of MPI.
    Launcher,
}

/// What a launcher knows of processes on several hosts.
pub trait Between: Send + Sync {
    /// For the first process of each host: gives bytes to those of the others, and returns those of all, in the order of
    /// their numbers. Waits for all of them.
    fn exchange(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Error>;
    /// Takes in what other hosts say of lost processes. False if MPI does not return, as when one is lost.
    fn listens(&self) -> bool;
    /// What carries messages between processes of different hosts.
    fn carrier(&self) -> Arc<dyn Carrier>;
}

/// The processes of this program. They live as long as the first one.
pub struct Meeting {
    /// This process's number.
    pub rank: u32,
    /// For each process, the first process of its host.
    pub hosts: Vec<u32>,
    started: Started,
    lobby: Arc<Lobby>,
    between: Option<Arc<dyn Between>>,
    /// For each process, the name of its host.
    pub names: Vec<String>,
    /// The processors of its host that each process may use, by the system's numbers.
    pub cpus: Vec<Vec<u32>>,
    /// Why they have not met. Then no run can.
    amiss: Option<Error>,
}

/// The processes of this program, once they have met; or why those of a launcher can't.
static MEETING: Mutex<Option<Result<Arc<Meeting>, Error>>> = Mutex::new(None);

/// None while they meet, too: whoever asks may have to end the process.
fn met() -> Option<Arc<Meeting>> {
    let meeting = match MEETING.try_lock() {
        Ok(meeting) => meeting,
        Err(TryLockError::Poisoned(meeting)) => meeting.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    meeting.clone()?.ok()
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
    let left = || (0..meeting.size()).filter(|rank| Some(*rank) != lost);
    let beside =
        lost.and_then(|lost| left().find(|rank| meeting.hosts[*rank as usize] == meeting.hosts[lost as usize]));
    let first = beside.or_else(|| left().next()).unwrap_or(0);
    meeting.hosts[meeting.rank as usize] == meeting.hosts[first as usize] && meeting.lobby.reports()
}

/// Says why this process ends, for the others to tell if they miss it.
pub fn last_words(text: &str) {
    if let Some(meeting) = met() {
        meeting.lobby.last_words(text);
    }
}

impl Meeting {
    /// Meets the other processes, in the first call; collective.
    ///
    /// # Errors
    ///
    /// They can't meet; or this process has met others.
    pub fn of(started: Started) -> Result<Arc<Self>, Error> {
        let mut meeting = MEETING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(met) = &*meeting {
            return met.clone().and_then(|met| met.whole());
        }
        let mut met = match started {
            Started::Copies(processes) => {
                let lobby = copies::lobby(processes)?;
                let (rank, hosts) = (number(), vec![0; lobby.ranks().len()]);
                Self { rank, hosts, started, lobby, between: None, names: Vec::new(), cpus: Vec::new(), amiss: None }
            }
            #[cfg(feature = "mpi")]
            Started::Launcher => match super::mpi::meet() {
                Ok(met) => met,
                // Meeting is collective: this process does not try it alone.
                Err(e) => return meeting.insert(Err(e)).clone(),
            },
            #[cfg(not(feature = "mpi"))]
            Started::Launcher => {
                let came = "one without; build it with `--features mpi`";
                return Err(Error::misuse("a run on MPI", "a program built with the feature `mpi`", came));
            }
        };
        let cpus: Vec<u32> = Topology::here().cpus.iter().map(|cpu| cpu.os).collect();
        match met.all(&(super::host(), cpus)) {
            Ok(all) => (met.names, met.cpus) = all.into_iter().unzip(),
            Err(e) => met.amiss = Some(e),
        }
        let met = Arc::new(met);
        *meeting = Some(Ok(met.clone()));
        met.whole()
    }

    fn whole(self: &Arc<Self>) -> Result<Arc<Self>, Error> {
        self.amiss.clone().map_or_else(|| Ok(self.clone()), Err)
    }

    #[cfg(feature = "mpi")]
    pub fn launched(rank: u32, hosts: Vec<u32>, lobby: Arc<Lobby>, between: Option<Arc<dyn Between>>) -> Self {
        let (names, cpus) = Default::default();
        Self { rank, hosts, started: Started::Launcher, lobby, between, names, cpus, amiss: None }
    }

    /// How many processes there are.
    pub fn size(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// The processes of this one's host.
    fn of_host(&self, host: u32) -> impl Iterator<Item = u32> {
        (0..self.size()).filter(move |rank| self.hosts[*rank as usize] == host)
    }

    /// How many processors of a host its processes may use.
    fn processors_of(&self, host: u32) -> usize {
        self.of_host(host).flat_map(|rank| &self.cpus[rank as usize]).collect::<HashSet<_>>().len()
    }

    /// The part of its host's processors that each process can have at least.
    pub fn share(&self) -> u32 {
        let share = |host: &u32| self.processors_of(*host) / self.of_host(*host).count();
        self.hosts.iter().map(share).min().map_or(1, |share| share.max(1) as u32)
    }

    /// Whether there are more workers on this host than processors for them.
    pub fn is_crowded(&self, workers: u32) -> bool {
        let (host, workers) = (self.hosts[self.rank as usize], workers as usize);
        let bound = self.cpus[self.rank as usize].len();
        workers > bound || workers * self.of_host(host).count() > self.processors_of(host)
    }

    /// The places of this process's workers. A launcher's binding is kept; processes that it has not bound share the host's
    /// processors.
    pub fn places(&self, binding: &Binding, workers: u32) -> Result<Places, Error> {
        let host = self.hosts[self.rank as usize];
        let own = &self.cpus[self.rank as usize];
        let unbound = self.of_host(host).all(|rank| self.cpus[rank as usize] == *own);
        let sharing: Vec<u32> = if unbound { self.of_host(host).collect() } else { vec![self.rank] };
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
            Started::Copies(n) => format!("{n} that the first one starts"),
            Started::Launcher => format!("the {} of MPI", self.size()),
        };
        let expected = format!("{}, as in the first run of this program on several", shown(self.started));
        Err(Error::misuse("processes of a run", expected, shown(wanted)))
    }

    /// Whether a process has been lost.
    pub fn has_failed(&self) -> bool {
        self.lobby.has_failed()
    }

    /// Exchanges values; collective, and waits.
    ///
    /// # Errors
    ///
    /// A process has ended without taking part, or has taken part in another exchange. A value of another type.
    pub fn all<T: Serialize + for<'a> Deserialize<'a>>(&self, value: &T) -> Result<Vec<T>, Error> {
        let coded =
            |e: postcard::Error| Error::Encoding { what: "what processes agree on".into(), message: e.to_string() };
        let encoded = postcard::to_stdvec(value).map_err(coded);
        let mut bytes = encoded.clone().unwrap_or_default();
        // The others then get what they can't decode, rather than nothing.
        bytes.truncate(self.lobby.most());
        let gifts = self.lobby.exchange(&bytes, |gifts| self.total(gifts)).map_err(|e| self.with_host(e))?;
        encoded?;
        gifts.iter().map(|bytes| postcard::from_bytes(bytes).map_err(coded)).collect()
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

    /// The gifts of all hosts.
    fn total(&self, gifts: Vec<u8>) -> Result<Vec<u8>, Error> {
        let Some(between) = &self.between else { return Ok(gifts) };
        let mut firsts: Vec<u32> = self.hosts.clone();
        firsts.sort_unstable();
        firsts.dedup();
        let mut of_hosts = Vec::new();
        for bytes in between.exchange(&gifts)? {
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

    /// A run begins that ends with the next exchange. `give_up` ends it at once, for all processes.
    pub fn begin(&self, give_up: GiveUp) {
        self.lobby.begin(give_up);
    }

    pub fn end(&self) {
        self.lobby.end();
    }
}

/// The number of this process among those of its program.
pub fn number() -> u32 {
    copies::number().or_else(|| super::launcher::launched().map(|job| job.rank)).unwrap_or(0)
}
