//! Runs in virtual time, several at once, each done only once.

use indicatif::ProgressBar;
use maniple::runtime::VirtualMachine;
use maniple_command::Failure;
use maniple_command::host::available_memory;
use maniple_command::machines::file::MachineFile;
use maniple_command::output::progress;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A run of a program.
pub trait Job: Clone + PartialEq + Send + Sync {
    /// The times of a run.
    type Took: Copy + Send;

    /// Its size, for people.
    fn size(&self) -> String;

    /// The memory that it needs at most.
    fn most_bytes(&self) -> u128;

    /// Runs the program and verifies its results.
    ///
    /// # Errors
    /// A run that failed, or was not verified.
    fn run(&self) -> Result<Self::Took, Failure>;
}

/// The machine of a file, with one shard for each node.
pub fn machine_of(file: &MachineFile, shards: usize) -> VirtualMachine {
    file.machine(None, u32::try_from(shards).unwrap_or(u32::MAX))
}

/// The runs done so far, with a progress bar.
pub struct Runs<J: Job> {
    done: Vec<(J, J::Took)>,
    /// The bar. It grows with the runs.
    pub progress: ProgressBar,
}

impl<J: Job> Default for Runs<J> {
    fn default() -> Self {
        Self { done: Vec::new(), progress: progress(0, "{elapsed_precise} [{bar:40}] run {pos} of {len}: {msg}") }
    }
}

impl<J: Job> Runs<J> {
    fn took(&self, job: &J) -> Option<J::Took> {
        self.done.iter().find(|(done, _)| done == job).map(|(_, took)| *took)
    }

    /// The times of the jobs, in their order. Does those that are not done yet, as many at once as there are processors and as
    /// fit into memory.
    ///
    /// # Errors
    /// The first run that failed or was not verified.
    pub fn all(&mut self, jobs: &[J]) -> Result<Vec<J::Took>, Failure> {
        let mut new: Vec<&J> = Vec::new();
        for job in jobs {
            if self.took(job).is_none() && !new.contains(&job) {
                new.push(job);
            }
        }
        self.progress.inc_length(new.len() as u64);
        let at_once = std::thread::available_parallelism().map_or(1, usize::from);
        let memory = u128::from(available_memory()) / at_once as u128;
        let (large, small): (Vec<&J>, Vec<&J>) = new.into_iter().partition(|job| job.most_bytes() > memory);
        // Finished jobs, up to the first failure.
        let results = Mutex::new(Ok(Vec::new()));
        let locked = || results.lock().unwrap_or_else(PoisonError::into_inner);
        let run = |job: &J| {
            let result = job.run();
            self.progress.set_message(job.size());
            self.progress.inc(1);
            let mut results = locked();
            match (&mut *results, result) {
                (Ok(results), Ok(took)) => results.push((job.clone(), took)),
                (Ok(_), Err(failure)) => *results = Err(failure),
                (Err(_), _) => {}
            }
        };
        let next = AtomicUsize::new(0);
        let in_turn = |jobs: &[&J]| {
            while locked().is_ok()
                && let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed))
            {
                run(job);
            }
        };
        std::thread::scope(|scope| (0..at_once).for_each(|_| drop(scope.spawn(|| in_turn(&small)))));
        next.store(0, Ordering::Relaxed);
        in_turn(&large);
        self.done.extend(results.into_inner().unwrap_or_else(PoisonError::into_inner)?);
        Ok(jobs.iter().filter_map(|job| self.took(job)).collect())
    }
}
