//! The binding of workers to processors of the host.

use crate::Error;
use maniple_mapper::Topology;
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The binding of workers to processors of the host. Only the threads driver binds workers.
///
/// A worker that is bound does not move, so its data stays in its caches. Bind workers if the process has its
/// processors to itself, and no more workers than processors.
///
/// Nothing is bound by default, for two reasons. Two runs at once that bind, such as two tests, share the first
/// processors and leave the others idle. Threads that a task of a bound worker starts are bound like the worker, and
/// [`std::thread::available_parallelism`] returns 1 there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Binding {
    /// No binding: the operating system moves the workers.
    #[default]
    None,
    /// Each worker on a processor of its own, as [`Topology::binding`] deals them out. If there are fewer processors
    /// than workers, nothing is bound, and the run logs a warning.
    Cores,
    /// Worker w on processor `.0[w]`, by the operating system's number. There is one number for each worker; numbers
    /// may repeat. A worker whose processor this process may not use is not bound, and the run logs a warning.
    Explicit(Vec<u32>),
}

/// The workers of a run in this process, as a library of threads has to know them that shares their processors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Team {
    /// How many they are.
    pub workers: usize,
    /// The processors of the host that they are bound to; empty if one of them is not bound.
    pub cpus: Vec<u32>,
}

impl Team {
    /// Those among which the calling thread is a worker. None in virtual time, and on threads of the program's own.
    pub fn here() -> Option<Arc<Self>> {
        TEAM.with_borrow(Clone::clone)
    }

    /// Says that the calling thread is one of these workers, until it ends.
    pub(crate) fn join(self: &Arc<Self>) {
        TEAM.with_borrow_mut(|team| *team = Some(self.clone()));
    }

    /// For a thread that works for them: it is one of them from now on, and shares their processors.
    pub fn share(self: &Arc<Self>) {
        self.join();
        // Without a right to that it stays where it is, which is with the worker that has started it.
        let _ = bind_thread(&self.cpus);
    }
}

thread_local!(static TEAM: RefCell<Option<Arc<Team>>> = const { RefCell::new(None) });

/// The processors of the workers of one run.
#[derive(Default)]
pub(crate) struct Places {
    /// The number of the first worker here.
    first: u32,
    /// Each worker's processor. Empty if nothing is bound.
    cpus: Vec<Option<u32>>,
    /// The run has been warned.
    refused: AtomicBool,
}

impl Places {
    /// Whether two workers are to be on one processor.
    pub fn shared(&self) -> bool {
        let mut seen = std::collections::HashSet::new();
        !self.cpus.iter().flatten().all(|cpu| seen.insert(cpu))
    }

    /// The processors of the workers that the calling thread will start. They stay within those that the thread may
    /// use, although the system would let them leave.
    pub fn of(binding: &Binding, workers: u32) -> Result<Self, Error> {
        if *binding == Binding::None {
            return Ok(Self::default());
        }
        let host = Topology::here();
        let n = host.cpus.len();
        let (cpus, refusal) = match binding {
            Binding::None => (Vec::new(), None),
            Binding::Cores => match host.binding(workers as usize) {
                Some(cpus) => (cpus.into_iter().map(Some).collect(), None),
                None => (Vec::new(), Some(format!("more workers ({workers}) than processors ({n})"))),
            },
            Binding::Explicit(wanted) if wanted.len() != workers as usize => {
                let (expected, came) = (format!("{workers}, one for each worker"), wanted.len());
                return Err(Error::misuse("number of processors to bind to", expected, came));
            }
            Binding::Explicit(wanted) => {
                let allowed = |cpu: &u32| host.cpus.iter().any(|known| known.os == *cpu);
                let refusal = wanted.iter().position(|cpu| !allowed(cpu)).map(|worker| {
                    let cpu = wanted[worker];
                    format!("worker {worker} is to be on processor {cpu}, which is not one of the {n} that this process may use")
                });
                (wanted.iter().map(|&cpu| Some(cpu).filter(allowed)).collect(), refusal)
            }
        };
        if let Some(reason) = &refusal {
            warn(reason);
        }
        Ok(Self { first: 0, cpus, refused: AtomicBool::new(refusal.is_some()) })
    }

    /// The places for the workers of one of several processes: its first worker has this number, and a number of places go to
    /// others.
    #[cfg(target_os = "linux")]
    pub fn from(mut self, first: u32, others: u32) -> Self {
        self.first = first;
        self.cpus.drain(..self.cpus.len().min(others as usize));
        self
    }

    /// The workers here, so many.
    pub fn team(&self, workers: usize) -> Team {
        let bound = self.cpus.get(..workers).unwrap_or_default().iter().copied().collect::<Option<Vec<u32>>>();
        Team { workers, cpus: bound.unwrap_or_default() }
    }

    /// Binds the calling thread, a worker.
    pub fn bind(&self, worker: u32) {
        if let Some(&Some(cpu)) = self.cpus.get((worker - self.first) as usize)
            && let Err(e) = bind_thread(&[cpu])
            && self.is_first_refusal()
        {
            // The same text for all workers, so that warnings of many runs can be recognized as the same.
            warn(&format!("the system refuses: {e}"));
        }
    }

    fn is_first_refusal(&self) -> bool {
        !self.refused.swap(true, Ordering::Relaxed)
    }
}

#[cold]
fn warn(reason: &str) {
    log::warn!("some or all workers are not bound: {reason}");
}

#[cfg(target_os = "linux")]
fn bind_thread(cpus: &[u32]) -> io::Result<()> {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu as usize >= CpuSet::MAX_CPU {
            return Err(io::Error::other(format!("a processor number can be at most {}", CpuSet::MAX_CPU - 1)));
        }
        set.set(cpu as usize);
    }
    // None at all would be an error, and means that nothing is bound.
    if cpus.is_empty() { Ok(()) } else { Ok(sched_setaffinity(None, &set)?) }
}

#[cfg(not(target_os = "linux"))]
fn bind_thread(_: &[u32]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_refuses_is_an_error() {
        // No kernel has processors of these numbers.
        assert!(bind_thread(&[u32::MAX]).is_err());
        #[cfg(target_os = "linux")]
        assert!(bind_thread(&[rustix::thread::CpuSet::MAX_CPU as u32]).is_err());
    }

    #[test]
    fn only_the_first_worker_that_is_refused_warns() {
        let places = Places { first: 0, cpus: vec![Some(u32::MAX); 3], refused: AtomicBool::new(false) };
        assert!(places.is_first_refusal());
        assert!(!places.is_first_refusal() && !places.is_first_refusal());
    }
}
