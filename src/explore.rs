//! Runs a program under many schedules, which are drawn from seeds.
//!
//! A schedule is an order of messages and tasks, with slow pairs of processors, pauses and, on request, lost
//! processors. A seed always gives the same run. So a failure that threads would show once in a month is found within
//! seconds. The seed in the report shows it again.
//!
//! ```
//! use maniple::prelude::*;
//!
//! async fn shard(shard: Shard, total: Collective<u64>) -> Result<u64, Error> {
//!     total.call(&shard, u64::from(shard.index()))?.await
//! }
//!
//! let explored = maniple::explore(100, |runtime| {
//!     let (sums, _) = runtime.run(|top| async move {
//!         let gang = top.gang("all", 4)?;
//!         let total = Collective::allreduce(Operator::sum()).make(&top, &gang, "total")?;
//!         let task = top.register("shard", shard);
//!         top.launch_gang(&gang, &task, |_| ShardLaunch::new(total))?.all().await
//!     })?;
//!     if sums == [6; 4] { Ok(()) } else { Err(Error::user(format!("{sums:?}"))) }
//! })?;
//! assert_eq!(explored.runs, 100);
//! # Ok::<(), maniple::explore::Failure>(())
//! ```

use maniple_runtime::{Faults, Runtime};
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The name of the environment variable that lets [`Explore::run`] run a single seed.
pub const SEED: &str = "MANIPLE_SEED";

/// Explores a program under seeds 0 to `seeds` − 1, with the default settings of [`Explore`]. Blocks the calling
/// thread.
///
/// # Errors
/// [`Failure`] with the lowest seed under which the program fails.
pub fn explore<E: fmt::Display>(
    seeds: u64,
    program: impl Fn(Runtime) -> Result<(), E> + Sync,
) -> Result<Explored, Failure> {
    Explore::new(seeds).run(program)
}

/// The settings of an exploration: its seeds, processors and faults. [`run`](Self::run) starts it.
#[derive(Debug, Clone)]
#[must_use = "nothing is explored before `run`"]
pub struct Explore {
    seeds: Range<u64>,
    processors: RangeInclusive<u32>,
    faults: bool,
    losses: bool,
    most_steps: u64,
    workers: u32,
}

impl Explore {
    /// Explores seeds 0 to `seeds` − 1 in one thread. A run has 1 to 4 processors, slow pairs and pauses, and at most a
    /// million steps.
    pub fn new(seeds: u64) -> Self {
        Self { seeds: 0..seeds, processors: 1..=4, faults: true, losses: false, most_steps: 1_000_000, workers: 1 }
    }

    /// Sets the first seed. The number of seeds stays.
    pub fn from(mut self, seed: u64) -> Self {
        self.seeds = seed..seed.saturating_add(self.seeds.end - self.seeds.start);
        self
    }

    /// Sets the numbers of processors that a run may have, from 1 up.
    pub fn processors(mut self, processors: RangeInclusive<u32>) -> Self {
        self.processors = processors;
        self
    }

    /// Sets whether runs have slow pairs of processors and pauses.
    pub fn faults(mut self, faults: bool) -> Self {
        self.faults = faults;
        self
    }

    /// Sets whether some runs lose processors. Such a run may fail, with [`Error::Lost`](maniple_runtime::Error::Lost)
    /// as the [origin](maniple_runtime::Error::origin) of its error. The program must take that for right.
    pub fn losses(mut self, losses: bool) -> Self {
        self.losses = losses;
        self
    }

    /// Sets the most steps of a run. A run that takes more fails.
    pub fn most_steps(mut self, steps: u64) -> Self {
        self.most_steps = steps;
        self
    }

    /// Sets the number of threads that run seeds side by side. Each run is in one thread. The outcome does not depend
    /// on this number.
    pub fn workers(mut self, workers: u32) -> Self {
        self.workers = workers;
        self
    }

    /// Runs the program under each seed, until it fails with an error or a panic. Blocks the calling thread.
    ///
    /// `program` gets a [`Runtime`] for each seed. It [runs](Runtime::run) it once or several times, and returns an
    /// error if the result is wrong.
    ///
    /// After a failure it runs the failing seed with fewer processors and faults. It looks for the smallest case that
    /// fails in the same way: the first lines of the messages are the same but for numbers.
    ///
    /// If the environment variable [`SEED`] is set to a seed, only that seed is run.
    ///
    /// # Errors
    /// [`Failure`] with the lowest seed under which the program fails. If a setting or the value of [`SEED`] is not
    /// legal, nothing is run, and the message says why.
    pub fn run<E: fmt::Display>(&self, program: impl Fn(Runtime) -> Result<(), E> + Sync) -> Result<Explored, Failure> {
        let seeds = self.checked(std::env::var_os(SEED).map(|seed| seed.to_string_lossy().into_owned()));
        let seeds = seeds.map_err(Failure::refused)?;
        let runs = seeds.end - seeds.start;
        let faults = AtomicU64::new(0);
        let found = first_failure(seeds, self.workers, |seed| {
            let case = self.case(seed);
            faults.fetch_add(case.faults.len() as u64, Ordering::Relaxed);
            self.fails(&case, &program).map_or(Ok(()), Err)
        });
        match found {
            None => Ok(Explored { runs, faults: faults.into_inner() }),
            Some((seed, message)) => Err(self.shrunk(self.case(seed), message, &program)),
        }
    }

    /// The seeds to run, `alone` if it is set; an error if that or an option is at fault.
    fn checked(&self, alone: Option<String>) -> Result<Range<u64>, String> {
        let processors = &self.processors;
        if processors.is_empty() || *processors.start() == 0 {
            return Err(format!("numbers of processors to explore: expected a range from 1 up, found {processors:?}"));
        }
        match alone {
            Some(text) => match text.trim().parse::<u64>() {
                Ok(seed) if seed < u64::MAX => Ok(seed..seed + 1),
                _ => Err(format!("{SEED}: expected a seed, 0 to {}, found {text:?}", u64::MAX - 1)),
            },
            None if self.seeds.is_empty() => Err("seeds to explore: expected at least one, found none".to_string()),
            None => Ok(self.seeds.clone()),
        }
    }

    /// The run of a seed.
    fn case(&self, seed: u64) -> Case {
        let (least, most) = (*self.processors.start(), *self.processors.end());
        let mixed = (seed ^ seed >> 7).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let processors = least + (mixed % u64::from(most.saturating_sub(least) + 1)) as u32;
        let mut faults = Faults::drawn(seed, processors, self.losses);
        if !self.faults {
            (faults.slow, faults.pauses) = Default::default();
        }
        Case { seed, processors, faults }
    }

    fn fails<E: fmt::Display>(&self, case: &Case, program: &impl Fn(Runtime) -> Result<(), E>) -> Option<String> {
        let runtime = Runtime::seeded(case.processors, case.seed).faults(case.faults.clone());
        match catch_unwind(AssertUnwindSafe(|| program(runtime.most_steps(self.most_steps)))) {
            Ok(Ok(())) => None,
            Ok(Err(e)) => Some(e.to_string()),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                Some(format!("it panicked: {}", text.unwrap_or("(no message)")))
            }
        }
    }

    fn shrunk<E: fmt::Display>(
        &self,
        found: Case,
        message: String,
        program: &impl Fn(Runtime) -> Result<(), E>,
    ) -> Failure {
        // Another failure may be another fault.
        let like = kind(&message);
        let same = |case: &Case| self.fails(case, program).filter(|other| kind(other) == like);
        let mut least = (found.clone(), message.clone());
        for processors in *self.processors.start()..found.processors {
            let case = Case { processors, faults: found.faults.among(processors), ..found.clone() };
            if let Some(message) = same(&case) {
                least = (case, message);
                break;
            }
        }
        let mut which = 0;
        while which < least.0.faults.len() {
            let case = Case { faults: least.0.faults.without(which), ..least.0.clone() };
            match same(&case) {
                Some(message) => least = (case, message),
                None => which += 1,
            }
        }
        let (Case { seed, processors, faults }, least_message) = least;
        Failure { seed, message, processors, faults: faults.into(), least_message }
    }
}

/// The kind of a failure: the first line of its message, with every number replaced by 0.
fn kind(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let mut text: Vec<char> = line.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    text.dedup_by(|a, b| *a == '0' && *b == '0');
    text.into_iter().collect()
}

/// One run.
#[derive(Debug, Clone)]
struct Case {
    seed: u64,
    processors: u32,
    faults: Faults,
}

/// The result of an exploration without a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explored {
    /// Number of runs, one for each seed.
    pub runs: u64,
    /// Number of faults that were planned in these runs.
    pub faults: u64,
}

/// A seed under which a program fails, and the smallest case found for it. `Debug` writes the same text as `Display`.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The message of the failure under this seed.
    pub message: String,
    /// The smallest number of processors found that fails in the same way under this seed. 0 if nothing was run.
    pub processors: u32,
    /// The fewest faults found that fail in the same way.
    pub faults: Box<Faults>,
    /// The message of the failure with these processors and faults.
    pub least_message: String,
}

impl Failure {
    /// Nothing was run.
    fn refused(message: String) -> Self {
        let faults = Box::default();
        Self { seed: 0, least_message: message.clone(), message, processors: 0, faults }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, message, processors, faults, least_message } = self;
        if *processors == 0 {
            return f.write_str(message);
        }
        writeln!(f, "seed {seed}: {message}")?;
        writeln!(f, "smallest case that fails in the same way: processors {processors}, faults: {faults}")?;
        if least_message != message {
            writeln!(f, "its message: {least_message}")?;
        }
        write!(f, "to run this seed alone, set {SEED}={seed}")
    }
}

/// The same text, so that `fn main() -> Result<(), Failure>` ends with a message for people.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Failure {}

/// Calls `run` with one seed after the other, on `workers` threads, until it fails. Returns the lowest seed that fails
/// and its error. The result does not depend on the number of threads.
pub fn first_failure<E: Send>(
    seeds: Range<u64>,
    workers: u32,
    run: impl Fn(u64) -> Result<(), E> + Sync,
) -> Option<(u64, E)> {
    let (next, end) = (AtomicU64::new(seeds.start), AtomicU64::new(seeds.end));
    let found: Mutex<Option<(u64, E)>> = Mutex::new(None);
    let work = || {
        loop {
            // Not past the last number there is, to begin anew.
            let next = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seed| seed.checked_add(1));
            let seed = next.unwrap_or(u64::MAX);
            if seed >= end.load(Ordering::Relaxed) {
                return;
            }
            if let Err(e) = run(seed) {
                // The seeds before it have been begun, and may fail too.
                end.fetch_min(seed, Ordering::Relaxed);
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                if found.as_ref().is_none_or(|(other, _)| seed < *other) {
                    *found = Some((seed, e));
                }
            }
        }
    };
    if workers <= 1 {
        work();
    } else {
        std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    }
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}
