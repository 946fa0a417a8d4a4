//! Traces of several processes: the first one gets the recordings of all, with their clocks compared.

use super::clocks::{self, Ahead};
use super::meeting::Meeting;
use super::{Told, mixed, monotonic};
use crate::Error;
use crate::diagnose::trace::{Nodes, Packed, Tracing, Unpacking};

/// The most bytes that a process gives at once. So the others need little memory, and the lobby too.
const MOST: usize = 1 << 20;
/// The most bytes of all processes at once, as MPI counts them with 31 bits.
const MOST_OF_ALL: usize = 1 << 30;
/// How many allgathers compare clocks.
const ALLGATHERS: usize = 16;

/// A run with a trace.
pub struct Traced<'a> {
    meeting: &'a Meeting,
    tracing: &'a Tracing,
    /// The time at which each process's times begin, by its own clock.
    began: Vec<u64>,
    start: Vec<Ahead>,
}

impl<'a> Traced<'a> {
    /// Compares the clocks at the start of a run; collective, and waits. `opened` has a time of each process. The
    /// times of a process begin at the time of the first process of its host.
    pub fn begin(meeting: &'a Meeting, tracing: &'a Tracing, opened: &[std::time::Duration]) -> Result<Self, Error> {
        let began = meeting.hosts.iter().map(|host| opened[*host as usize].as_nanos() as u64).collect();
        Ok(Self { meeting, tracing, began, start: compared(meeting)? })
    }

    /// This process's recordings, if another one writes them.
    pub fn packed(&self) -> Packed {
        match self.meeting.rank {
            0 => Packed::default(),
            // They are nothing that can't be encoded.
            _ => self.tracing.pack().unwrap_or_default(),
        }
    }

    /// Gives the first process the recordings of all; collective, and waits. `lens` has the bytes of each process.
    pub fn gather(&self, packed: Packed, lens: &[u64]) {
        let end = compared(self.meeting);
        let gathered = end.as_ref().map_err(Clone::clone).and_then(|_| self.gathered(packed, lens));
        self.end(end.as_ref().unwrap_or(&self.start), gathered.err());
    }

    /// Without the recordings of other processes, one of which is lost.
    pub fn without(&self, error: &Error) {
        self.end(&self.start, Some(error.clone()));
    }

    fn end(&self, end: &[Ahead], missing: Option<Error>) {
        let compared = [&self.start[..], end];
        self.tracing.set_nodes(Nodes {
            hosts: self.meeting.names.clone(),
            first_of: self.meeting.hosts.clone(),
            shifts: clocks::shifts(&self.began, compared),
            clock_error: clocks::error(&self.meeting.hosts, compared),
            missing: missing.map(|e| e.to_string()),
        });
    }

    fn gathered(&self, mut packed: Packed, lens: &[u64]) -> Result<(), Error> {
        let most = MOST.min(self.meeting.most()).min(MOST_OF_ALL / lens.len());
        let longest = lens.iter().max().copied().unwrap_or(0);
        let mut from: Vec<Unpacking> = lens.iter().map(|_| Unpacking::default()).collect();
        for _ in 0..longest.div_ceil(most as u64) {
            let pieces = self.meeting.gather(&packed.next(most))?;
            pieces.iter().zip(&mut from).for_each(|(piece, from)| from.take(piece, || self.tracing.list()));
        }
        self.tracing.unpacked(from);
        self.tracing.given(packed);
        Ok(())
    }
}

/// Compares the clocks of the hosts, if there are several; collective, and waits.
fn compared(meeting: &Meeting) -> Result<Vec<Ahead>, Error> {
    if meeting.hosts.iter().all(|host| *host == meeting.hosts[0]) {
        return Ok(vec![Ahead::default(); meeting.hosts.len()]);
    }
    let now = || monotonic().as_nanos() as u64;
    let mut own = Vec::new();
    loop {
        let before = now();
        let told = meeting.all(&Told::Clocks(own.clone()))?;
        if own.len() == ALLGATHERS {
            let times = told.into_iter().map(|told| match told {
                Told::Clocks(times) => Ok(times),
                other => Err(mixed(&other)),
            });
            return Ok(clocks::ahead(&meeting.hosts, &times.collect::<Result<Vec<_>, _>>()?));
        }
        own.push((before, now()));
    }
}
