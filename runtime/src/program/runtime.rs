//! The entry: sets a run up, gives it to a driver, and takes its outcome.

use super::top::Top;
use crate::config::{Compares, Config, UnderWay};
use crate::counters::Stats;
use crate::diagnose::Event;
use crate::diagnose::deadlock::Node;
use crate::diagnose::races::Actor;
use crate::diagnose::trace::TraceFile;
use crate::effects::Resident;
use crate::ids::Run;
use crate::message::Message;
use crate::plant::{Bug, Plant};
use crate::processor::Core;
#[cfg(target_os = "linux")]
use crate::wire::processes::{How, Started};
use crate::wire::{AnyResult, Binding, Faults, Outcome, VirtualMachine};
use crate::{Error, Place, wire};
use maniple_mapper::{CollectiveMapper, Machine, MapperSlot};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The driver of a run: it carries messages and gives processors their turns.
#[derive(Debug, Clone, PartialEq)]
pub enum Driver {
    /// A thread for each processor, all in one node.
    Threads {
        /// Number of processors, at least 1.
        workers: u32,
    },
    /// Several processes of this host, each a node with a thread for each of its processors.
    Processes {
        /// Number of processes, at least 1.
        processes: u32,
        /// Processors of each process, at least 1.
        workers: u32,
    },
    /// The processes that a launcher of MPI has started, on one host or several, each a node. On Linux.
    Mpi {
        /// Processors of each process, at least 1. By default the processes of a host share its processors.
        workers: Option<u32>,
    },
    /// One thread for all processors, in an order of messages and tasks drawn from `seed`. The same seed gives the same
    /// run each time. Each processor is a node of its own, so every message is encoded and decoded.
    Seeded {
        /// Number of processors, at least 1.
        processors: u32,
        /// Seed of the order.
        seed: u64,
    },
    /// One thread for all processors, on a machine that exists in virtual time only. The run is the same each time.
    Virtual(Arc<VirtualMachine>),
}

/// The processes of a run on several processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processes {
    /// For each process, the name of its host.
    pub hosts: Vec<String>,
    /// For each process, the first process of its host. Two hosts may have one name.
    pub first_of: Vec<u32>,
    /// For each process, the processors of its host that it may use, by the system's numbers.
    pub cpus: Vec<Vec<u32>>,
    /// Processors of each process.
    pub workers: u32,
}

/// Who drives the communication between hosts. MPI makes progress only during calls to MPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Progress {
    /// The processors: an idle one, or busy ones every few turns. While all processors of a process run long leaf tasks, its
    /// messages wait. A utility processor avoids this, because it runs no leaf tasks.
    #[default]
    Poll,
    /// An extra thread in each process, which needs a core.
    Dedicated,
}

/// What a worker of a run on threads or processes does while it has no work. [`Runtime::idle`] sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Idle {
    /// It looks for work for about 1 ms and then sleeps. If it finds that it is woken late, as on a busy host, it looks for up
    /// to 25 ms. With more workers than CPUs it sleeps almost at once.
    #[default]
    Adapts,
    /// It looks for work for this long and then sleeps. With a time of zero it sleeps almost at once, and leaves its CPU to
    /// others. With a long time it reacts soonest. A deadlock is found when all workers sleep, so it is found later.
    Looks(Duration),
}

/// A check that a run makes when [`Runtime::check`] asks for it. Each slows the run down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Check {
    /// Looks for races. Two leaf tasks race if they use the same values under simultaneous coherence, at least one of
    /// them writes, and nothing orders them. Such a pair is [`Error::Race`], whether or not the two met in this run.
    ///
    /// Leaf tasks of one shard are ordered by data held exclusively, by barriers, by futures, and by the waits of the
    /// shard. Leaf tasks of different shards are ordered by barriers, collectives and the ends of launches. The check
    /// compares the rectangles that the tasks' arguments name, so a reported pair *may* race. The run ends with the
    /// race, even if another error of the program follows from it. All processors must be in one address space.
    Races,
    /// Compares each call of the top-level tasks of all nodes. A difference is [`Error::Divergence`]. Debug builds always do
    /// this. Without it, runs on several processes compare a hash of the calls at each launch.
    /// It costs a message for each call of [`Top`] on each node but the first.
    ControlReplication,
    /// Tries the laws that a program declares for the operators of its collectives on the values that they combine. A call in
    /// which a law does not hold fails with [`Error::Panicked`], whose message names the law and the values.
    Laws,
}

/// The settings of a run: its driver, mapper, binding, checks and trace. [`run`](Self::run) starts it.
///
/// ```
/// use maniple_runtime::{Error, Runtime, Shard, ShardLaunch};
///
/// async fn hello(shard: Shard, greeting: String) -> Result<String, Error> {
///     Ok(format!("{greeting} from shard {} of {}", shard.index(), shard.shards()))
/// }
///
/// let (lines, _) = Runtime::threads(2).run(|top| async move {
///     let gang = top.gang("all", 3)?;
///     let task = top.register("hello", hello);
///     top.launch_gang(&gang, &task, |_| ShardLaunch::new("hello".to_string()))?.all().await
/// })?;
/// assert_eq!(lines[2], "hello from shard 2 of 3");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone)]
pub struct Runtime {
    driver: Driver,
    mapper: MapperSlot,
    binding: Binding,
    utility: u32,
    stack: usize,
    spare: Option<usize>,
    under_way: UnderWay,
    progress: Progress,
    idle: Idle,
    trace: Option<TraceFile>,
    checks: Vec<Check>,
    #[cfg(test)]
    pub(crate) compares: Option<Compares>,
    faults: Faults,
    most_steps: u64,
    plant: Option<(Bug, u64, u64)>,
}

impl Runtime {
    /// The bytes of a worker's stack, unless [`stack`](Self::stack) sets another number: 8 MiB.
    pub const STACK: usize = 8 << 20;
    /// The fewest bytes of a worker's stack: 64 KiB.
    pub const LEAST_STACK: usize = 64 << 10;
    /// The most processes of [`processes`](Self::processes): 256.
    pub const MOST_PROCESSES: u32 = 256;

    /// A run on the given driver, with the [`CollectiveMapper`]. Workers are not bound.
    pub fn new(driver: Driver) -> Self {
        Self {
            driver,
            mapper: Arc::new(CollectiveMapper).into(),
            binding: Binding::None,
            idle: Idle::default(),
            utility: 0,
            stack: Self::STACK,
            spare: None,
            under_way: UnderWay::InAll(1),
            progress: Progress::Poll,
            trace: None,
            checks: Vec::new(),
            #[cfg(test)]
            compares: None,
            faults: Faults::default(),
            most_steps: u64::MAX,
            plant: None,
        }
    }

    /// A run on `workers` threads, at least 1.
    pub fn threads(workers: u32) -> Self {
        Self::new(Driver::Threads { workers })
    }

    /// A run on `processes` processes of this host, at least 1. By default the processes divide the host's CPUs, and
    /// each has one worker for each of its CPUs, at least one. [`workers`](Self::workers) sets another number. On Linux only.
    ///
    /// The first call of `run` or `meet` starts the other processes, as copies of this program with the
    /// same arguments. Each copy runs the program from its beginning, and takes part in all runs on processes, in the same
    /// order. The number of processes is the same in all of them. Code outside the runs is executed by every process.
    ///
    /// There are at most 256 processes, and one run at a time. A copy starts in the current directory of the first process,
    /// and its stdin is empty. So change the directory only after the first run if arguments are relative paths. The first
    /// process does not wait for the copies after the last run, and ignores their exit codes.
    pub fn processes(processes: u32) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        Self::new(Driver::Processes { processes, workers: (cores / processes.max(1)).max(1) })
    }

    /// A run on the processes that a launcher of MPI such as `mpirun` or `srun` has started. By default the
    /// processes of a host divide its CPUs, with one worker for each. The host with the fewest CPUs per process sets the number
    /// for all. [`workers`](Self::workers) sets another number. On Linux only.
    ///
    /// Each process runs the program, and takes part in all runs on MPI, in the same order. Code outside the runs is executed by
    /// every process.
    ///
    /// The MPI library is loaded now: that of the launcher, or the file that the environment variable `MANIPLE_MPI` names. It is
    /// Open MPI, MPICH or a library that shares its binary interface (Intel MPI, Cray MPICH, MVAPICH), or any with the one
    /// of MPI 5 (`libmpi_abi`). Nothing of MPI is needed to build the program.
    ///
    /// The first call initialises MPI and meets the other processes; it is collective, and waits for them. If they can't
    /// meet, runs say why. MPI is finalised at the end of the program. Make this call at the beginning of `main`:
    /// launchers may not notice a process that ends before it, and the others wait for that one for ever.
    pub fn mpi() -> Self {
        let runtime = Self::new(Driver::Mpi { workers: None });
        #[cfg(target_os = "linux")]
        let _ = runtime.meet();
        runtime
    }

    /// The number of this process in the program's runs: the number of a copy which [`Runtime::processes`] has
    /// started, or the rank of MPI once [`Runtime::mpi`] has met the others; else 0. A program can leave it to process 0 to
    /// print and to write files. It stays the same if another process is lost.
    ///
    /// Processes of a launcher that run on threads are programs of their own: each has number 0.
    pub fn process_number() -> u32 {
        #[cfg(target_os = "linux")]
        return wire::processes::number();
        #[cfg(not(target_os = "linux"))]
        0
    }

    /// The number of processes of the program's runs, this one included; 1 before they have met.
    pub fn process_count() -> u32 {
        #[cfg(target_os = "linux")]
        return wire::processes::count();
        #[cfg(not(target_os = "linux"))]
        1
    }

    /// Whether this process is the one to report an error that all processes have. It is process 0. If a process is lost,
    /// it is the first one left on that host, or if none is left there, the first one left.
    pub fn reports_errors() -> bool {
        #[cfg(target_os = "linux")]
        return wire::processes::reports();
        #[cfg(not(target_os = "linux"))]
        true
    }

    /// Call this before the process exits because of an error that only it has. The [`Error::ProcessLost`] of the others
    /// then shows `text`. It is cut after 4096 bytes, and only the first call counts. That may be at any time, also before the
    /// first run; under MPI only after [`Runtime::mpi`].
    pub fn last_words(text: &str) {
        #[cfg(target_os = "linux")]
        wire::processes::last_words(text);
        #[cfg(not(target_os = "linux"))]
        let _ = text;
    }

    /// The number of processes that an MPI launcher (Open MPI, MPICH, SLURM) has started, this one included; `None` for one
    /// process. It is read from environment variables, so it works without an MPI library too.
    pub fn launched() -> Option<u32> {
        #[cfg(target_os = "linux")]
        return wire::processes::launched().map(|job| job.size);
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// The variables by which [`launched`](Self::launched) knows of a launcher, with their values, for messages.
    pub fn launcher_variables() -> Option<&'static str> {
        #[cfg(target_os = "linux")]
        return wire::processes::launched().map(|job| job.variables.as_str());
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Sets the number of workers: of all, on threads, or of each process. Other drivers have none.
    pub fn workers(mut self, number: u32) -> Self {
        match &mut self.driver {
            Driver::Threads { workers } | Driver::Processes { workers, .. } => *workers = number,
            Driver::Mpi { workers } => *workers = Some(number),
            Driver::Seeded { .. } | Driver::Virtual(_) => {}
        }
        self
    }

    /// A run of `processors` processors, at least 1, in one thread and in an order drawn from `seed`.
    pub fn seeded(processors: u32, seed: u64) -> Self {
        Self::new(Driver::Seeded { processors, seed })
    }

    /// A run in virtual time on `machine`.
    pub fn virtual_time(machine: VirtualMachine) -> Self {
        Self::new(Driver::Virtual(Arc::new(machine)))
    }

    /// Sets the mapper: an `Arc` of one, or a clone of a [`MapperSlot`]. A slot's mapper can be replaced during the
    /// run; on several nodes see [`Top::replace_mapper`] too.
    pub fn mapper(mut self, mapper: impl Into<MapperSlot>) -> Self {
        self.mapper = mapper.into();
        self
    }

    /// Binds the workers to processors of the host, on threads and on processes. If the system refuses, the run
    /// goes on and logs one warning through the [`log`] crate.
    pub fn binding(mut self, binding: Binding) -> Self {
        self.binding = binding;
        self
    }

    /// Sets what a worker does while it has no work: see [`Idle`]. The seeded driver and virtual time have no such workers.
    pub fn idle(mut self, idle: Idle) -> Self {
        self.idle = idle;
        self
    }

    /// Makes the last `processors` workers of each process **utility** processors. They run no leaf tasks, and only those
    /// shards that a mapper puts there by number.
    ///
    /// A shard on a utility processor can always go on at once. Elsewhere a shard waits while a leaf task runs on its
    /// processor, however long that takes. The leaf tasks of a shard on a utility processor run on other processors.
    /// With [`Binding::Cores`] utility processors get the last of the host's processors that are dealt out.
    ///
    /// The number must be smaller than the number of the process's workers. The seeded driver has no utility processors, as
    /// each of its processors is a node of its own. In virtual time [`VirtualMachine::utility`] says how many there are.
    pub fn utility(mut self, processors: u32) -> Self {
        self.utility = processors;
        self
    }

    /// Sets the bytes of each worker's stack, at least [`LEAST_STACK`](Self::LEAST_STACK); the default is
    /// [`STACK`](Self::STACK). All shards and leaf tasks run on such a stack, on every driver. The system gives a page of it
    /// memory when it is first used. A task that needs more ends the process. `ulimit -s` and `RUST_MIN_STACK` have no effect.
    pub fn stack(mut self, bytes: usize) -> Self {
        self.stack = bytes;
        self
    }

    /// Sets who sees to the messages between hosts. Without effect where all processes are on one host.
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Sets how many bytes of spare instances each processor keeps for later launches of the top-level task.
    ///
    /// An instance is spare when every point of it has the same or a newer value in another instance: a copy that was made
    /// for a reader, or a block of an earlier partition. When there are more, those used longest ago go. Instances that
    /// launches use again and again do not count: they stay, and with them their copies. An instance for which
    /// `Mapper::keep_instance` says `false` goes as soon as it is spare and not in use, even if launches use it again and again.
    ///
    /// With 0, that holds for all instances. Without this setting it is half as many bytes as the other instances of the
    /// processor have, and at least 64 KiB. On several processes all must set the same.
    pub fn spare_memory(mut self, bytes: usize) -> Self {
        self.spare = Some(bytes);
        self
    }

    /// Sets how many large values may be leaving a node at a time. Without this it is one: the values for the task with the
    /// highest priority have the network for themselves. Those of less than 64 KiB do not wait. This is for data that launches and
    /// flows move, in virtual time, and over MPI between hosts if the sender is a [utility processor](Self::utility). A flow sends
    /// from there if its node has one. Elsewhere all values leave at once: a processor that runs tasks would send the next ones only
    /// after a task.
    pub fn under_way(mut self, under_way: UnderWay) -> Self {
        self.under_way = under_way;
        self
    }

    /// Writes a trace of every run to a file, of runs that fail too. On several processes all have a trace or none has, and
    /// process 0 writes the file. See [`TraceFile`].
    pub fn trace(mut self, file: TraceFile) -> Self {
        self.trace = Some(file);
        self
    }

    /// Turns a check on. Call it again for another one.
    pub fn check(mut self, check: Check) -> Self {
        self.checks.push(check);
        self
    }

    /// Sets the faults of each run. The seeded driver has all kinds, threads and processes have slow links only, and virtual
    /// time has none. With others, [`run`](Self::run) is [`Error::Misuse`].
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// The driver.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// The faults of each run.
    pub fn planned_faults(&self) -> &Faults {
        &self.faults
    }

    /// Sets the most steps that a run may take. A run that takes more ends with [`Error::Stopped`]. Without this limit
    /// a program that polls in a loop may never end.
    ///
    /// On the seeded driver a step is a message delivered, a turn of a processor, or a microsecond of waiting for
    /// somebody outside the run. In virtual time it is an event. Threads and processes ignore the limit.
    pub fn most_steps(mut self, steps: u64) -> Self {
        self.most_steps = steps;
        self
    }

    /// Plants a bug that strikes on occasion `first` and every `period` after it.
    #[cfg(feature = "plant")]
    pub fn plant(mut self, bug: Bug, first: u64, period: u64) -> Self {
        self.plant = Some((bug, first, period));
        self
    }

    /// Runs a top-level task, and everything that it launches, to the end. Blocks the calling thread.
    ///
    /// Returns the result of the top-level task, and the counts of all processors. On several processes the result is the one
    /// of this process's copy, otherwise the first node's.
    ///
    /// Data gets in through the closure. Every node calls it, so it gives each call a clone of what it captured. For
    /// large data that is a clone of an `Arc`. Each shard then gets its block as its argument, through
    /// [`ShardLaunch::new`](crate::ShardLaunch::new), and a leaf task writes it to the shard's region. Data gets out as
    /// results of shards and as the result of the top-level task.
    ///
    /// ```
    /// use maniple_regions::{Field, Partition, Read, Rect, Region, Write};
    /// use maniple_runtime::{Error, Runtime, Shard, ShardLaunch, Arg};
    /// use std::sync::Arc;
    ///
    /// const U: Field<f64> = Field::new(0, "u");
    ///
    /// fn put(mut u: Write<f64>, block: Arg<Vec<f64>>) {
    ///     u.copy_from_slice(&block);
    /// }
    /// fn doubled(u: Read<f64>) -> Vec<f64> {
    ///     u.as_slice().iter().map(|u| 2.0 * u).collect()
    /// }
    /// async fn shard(shard: Shard, (region, block): (Region, Vec<f64>)) -> Result<Vec<f64>, Error> {
    ///     let u = shard.region(region)?;
    ///     shard.launch(put, (u.write(U), block.into())).go()?.detach();
    ///     shard.launch(doubled, (u.read(U),)).go()?.await
    /// }
    ///
    /// let data = Arc::new(vec![1.0, 2.0, 3.0, 4.0, 5.0]);
    /// let (blocks, _) = Runtime::threads(2).run(move |top| {
    ///     let data = data.clone();
    ///     async move {
    ///         let line = top.region_tree("line", Rect::line(0, data.len() as i64), &[U.info()])?;
    ///         let blocks: Vec<Region> = Partition::equal(line, 2)?.iter().collect();
    ///         let (gang, task) = (top.gang("all", 2)?, top.register("double", shard));
    ///         let done = top.launch_gang(&gang, &task, |s| {
    ///             let region = blocks[s as usize];
    ///             let block = data[region.rect.lo(0) as usize..region.rect.hi(0) as usize].to_vec();
    ///             ShardLaunch::new((region, block)).writes(region, [U])
    ///         })?;
    ///         done.all().await
    ///     }
    /// })?;
    /// assert_eq!(blocks.concat(), [2.0, 4.0, 6.0, 8.0, 10.0]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Waiting for something outside the run
    ///
    /// Shards and the top-level task may await something outside the run, such as another thread. On the seeded driver
    /// such a program is not repeatable. While anybody holds a clone of a shard's waker, the run waits for it instead
    /// of reporting a deadlock. It checks every 50 ms whether the clone is still there.
    ///
    /// Some combinators, such as `FuturesUnordered`, poll with wakers of their own and keep a clone of the shard's. A
    /// deadlock below one of these is not reported, and the run never ends. `join!`, `select!` and
    /// [`FutureMap::all`](crate::FutureMap::all) keep no clone.
    ///
    /// # Errors
    /// - The error of the top-level task.
    /// - The error of a task that nobody awaited.
    /// - [`Error::Deadlock`] when nothing can go on.
    /// - [`Error::ProcessLost`] when another process ends during the run.
    /// - [`Error::Divergence`] when the top-level tasks of two nodes differ.
    /// - [`Error::Misuse`] for settings that do not fit the driver: no processors, too many utility processors, faults
    ///   that it does not have, an impossible machine. On several processes also if they can't meet, do not have the same
    ///   settings, or another run is under way.
    pub fn run<F, Fut, R>(&self, top: F) -> Result<(R, Stats), Error>
    where
        F: Fn(Top) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Error>> + 'static,
        R: Send + 'static,
    {
        let of_any_type = move |handle: Top| -> AnyFuture {
            let future = top(handle);
            Box::pin(async move { Ok(Box::new(future.await?) as AnyResult) })
        };
        let (result, stats) = self.run_any(&of_any_type).map_err(Error::of_the_past)?;
        Ok((*result.downcast().expect("a result of the type that it was made from"), stats))
    }

    /// How the processes of the run are started, and the workers of each, if the program says so.
    #[cfg(target_os = "linux")]
    fn started(&self) -> (Started, Option<u32>) {
        match self.driver {
            Driver::Processes { processes, workers } => (Started::Copies(processes), Some(workers)),
            Driver::Mpi { workers } => (Started::Launcher, workers),
            _ => unreachable!("a driver of one process"),
        }
    }

    #[cfg(target_os = "linux")]
    fn is_on_processes(&self) -> bool {
        matches!(self.driver, Driver::Processes { .. } | Driver::Mpi { .. })
    }

    /// Waits until all processes have started, and describes them. Collective; only the first call waits.
    /// [`run`](Self::run) does this itself, and so does [`Runtime::mpi`].
    ///
    /// # Errors
    ///
    /// The processes can't meet; or the driver is neither [`processes`](Self::processes) nor [`mpi`](Self::mpi).
    pub fn meet(&self) -> Result<Processes, Error> {
        #[cfg(target_os = "linux")]
        if self.is_on_processes() {
            let (started, workers) = self.started();
            return wire::processes::meet(started, workers);
        }
        let expected = "Linux and `Runtime::processes` or `Runtime::mpi`";
        Err(Error::misuse("a run on several processes", expected, format!("{:?}", self.driver)))
    }

    fn compares(&self) -> Compares {
        #[cfg(test)]
        if let Some(compares) = self.compares {
            return compares;
        }
        match &self.driver {
            _ if cfg!(debug_assertions) || self.checks.contains(&Check::ControlReplication) => Compares::Words,
            // Each process runs the program for itself, so they may well differ.
            Driver::Processes { .. } | Driver::Mpi { .. } => Compares::Hashes,
            _ => Compares::Nothing,
        }
    }

    #[cfg(target_os = "linux")]
    fn run_processes(&self, config: &Arc<Config>, begin: &wire::Begin<'_>) -> Result<(AnyResult, Stats), Error> {
        let (started, _) = self.started();
        let (utility, binding, faults) = (self.utility, &self.binding, &self.faults);
        let how = How { started, utility, binding, progress: self.progress, faults };
        wire::processes::run(config.clone(), how, begin)
    }

    #[cfg(not(target_os = "linux"))]
    fn run_processes(&self, _: &Arc<Config>, _: &wire::Begin<'_>) -> Result<(AnyResult, Stats), Error> {
        Err(Error::misuse("a run on several processes", "Linux", std::env::consts::OS))
    }

    /// Refuses settings that do not fit several processes.
    fn check_processes(&self) -> Result<(), Error> {
        match self.checks.contains(&Check::Races) {
            true => {
                let why = "several, whose accesses nobody sees together";
                Err(Error::misuse("the check for races", "one process", why))
            }
            false => Ok(()),
        }
    }

    /// Refuses faults that the driver does not have.
    fn check_faults(&self, processors: u32) -> Result<(), Error> {
        let expected = match self.driver {
            Driver::Seeded { .. } => return self.faults.check(processors),
            Driver::Virtual(_) if self.faults.is_empty() => return Ok(()),
            Driver::Virtual(_) => "the seeded driver, threads or processes",
            _ if self.faults == self.faults.real() => return self.faults.check(processors),
            _ => "the seeded driver for pauses and losses",
        };
        Err(Error::misuse("faults of a run", expected, format!("{:?}, with {}", self.driver, self.faults)))
    }

    /// The same for a task of any type, so that drivers are compiled once and not for each program.
    fn run_any(&self, top: &AnyTop) -> Result<(AnyResult, Stats), Error> {
        let (processors, per_node, utility, one_copy) = match &self.driver {
            Driver::Threads { workers } => (*workers, *workers, self.utility, false),
            Driver::Processes { .. } | Driver::Mpi { .. } => {
                self.check_processes()?;
                let Processes { hosts, workers, .. } = self.meet()?;
                let processes = hosts.len() as u32;
                (processes.saturating_mul(workers), workers, self.utility, false)
            }
            Driver::Seeded { processors, .. } => (*processors, 1, self.utility, false),
            Driver::Virtual(machine) => {
                machine.check()?;
                (machine.nodes * machine.per_node, machine.per_node, machine.utility, machine.one_copy)
            }
        };
        if processors == 0 {
            return Err(Error::misuse("a run", "at least one processor", 0));
        }
        if utility >= processors {
            let expected = format!("fewer than the {processors} processors of the run");
            return Err(Error::misuse("number of utility processors", expected, utility));
        }
        if self.stack < Self::LEAST_STACK {
            let expected = format!("at least {} bytes", Self::LEAST_STACK);
            return Err(Error::misuse("the stack of a worker", expected, self.stack));
        }
        self.check_faults(processors)?;
        let mut machine = Machine::new(processors, per_node).with_utility(utility);
        if matches!(self.driver, Driver::Virtual(_)) {
            machine = machine.with_shards_on_utility();
        }
        let copies = Machine::new(processors, if one_copy { processors } else { per_node });
        let config = Arc::new(Config {
            run: Run::next(),
            stack: self.stack,
            machine,
            homes: Config::homes(&machine, &copies),
            copies,
            first_mapper: self.mapper.current(),
            mapper: self.mapper.clone(),
            trace: self.trace.as_ref().map(TraceFile::tracing),
            races: self.checks.contains(&Check::Races).then(Arc::default),
            spare: self.spare,
            under_way: self.under_way,
            laws: self.checks.contains(&Check::Laws),
            compares: self.compares(),
            idle: self.idle,
            plant: self.plant.map(|(bug, first, period)| Plant::new(bug, first, period)),
        });
        let begin = &move |core: &Rc<Core>| start_top(core, top);
        let result = match &self.driver {
            Driver::Threads { workers } => {
                let places = wire::bind::Places::of(&self.binding, *workers)?;
                wire::threads::run(config.clone(), places, &self.faults, begin)
            }
            Driver::Processes { .. } | Driver::Mpi { .. } => self.run_processes(&config, begin),
            Driver::Seeded { seed, .. } => {
                let how = (*seed, &self.faults, self.most_steps);
                wire::one_thread::run(self.stack, || wire::seeded::run(config.clone(), how, begin))
            }
            Driver::Virtual(machine) => wire::one_thread::run(self.stack, || {
                wire::virtual_time::run(config.clone(), machine.clone(), self.most_steps, begin)
            }),
        };
        let result = match &config.races {
            Some(races) => races.outcome(result),
            None => result,
        };
        if let (Some(file), Some(tracing)) = (&self.trace, &config.trace) {
            file.write(tracing, &config.machine, &format!("{:?}", self.driver), result.as_ref().err());
        }
        result
    }
}

/// The future of a node's copy of a top-level task.
type AnyFuture = Pin<Box<dyn Future<Output = Result<AnyResult, Error>>>>;
/// A top-level task.
type AnyTop = dyn Fn(Top) -> AnyFuture + Send + Sync;

/// Starts a node's copy of the top-level task on its first processor.
fn start_top(core: &Rc<Core>, function: &AnyTop) -> Outcome {
    let outcome = Outcome::default();
    core.effects().event(|| Event::TopLevelBegan);
    let top = Top::new(core);
    let (inner, at_end) = (outcome.clone(), outcome.clone());
    // Called now, so that the function itself need not outlive this call; its future runs on the executor.
    let started = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| function(top.clone())));
    let panicked = |message| Error::Panicked { place: Place { task: "top level".into(), shard: None }, message };
    let future = match started {
        Ok(future) => future,
        Err(panic) => {
            *outcome.borrow_mut() = Some(Err(panicked(crate::error::panic_message(panic))));
            stop_node(core, &outcome);
            return outcome;
        }
    };
    let body = async move {
        let result = future.await;
        // Kept at once: a deadlock may follow.
        let failed = result.is_err();
        *inner.borrow_mut() = Some(result);
        if top.launcher().has_flow.get()
            && let Err(e) = top.done().await
            && !failed
        {
            *inner.borrow_mut() = Some(Err(e));
        }
        top.launcher().settle().await;
        if !failed && let Err(e) = top.launcher().outcome(Ok(())) {
            *inner.borrow_mut() = Some(Err(e));
        }
    };
    let place = Place { task: "top level".into(), shard: None };
    let whose = TopLevel { core: core.clone(), place, outcome: at_end };
    core.effects().spawn(Rc::new(whose), Box::pin(body));
    outcome
}

/// A node's copy of the top-level task while it runs.
struct TopLevel {
    core: Rc<Core>,
    place: Place,
    outcome: Outcome,
}

impl Resident for TopLevel {
    fn place(&self) -> Place {
        self.place.clone()
    }
    fn node(&self) -> Option<Node> {
        None
    }
    fn actor(&self) -> Option<Actor> {
        None
    }
    fn over(self: Rc<Self>, panic: Option<String>) {
        if let Some(message) = panic {
            *self.outcome.borrow_mut() = Some(Err(Error::Panicked { place: self.place.clone(), message }));
        }
        stop_node(&self.core, &self.outcome);
    }
}

/// Ends the processors of the core's node, whose top-level task has ended.
fn stop_node(core: &Rc<Core>, outcome: &Outcome) {
    core.replica_over(outcome.borrow().as_ref().and_then(|o| o.as_ref().err()));
    for p in core.effects().copies().processors_of(core.effects().copies().node_of(core.effects().id)) {
        core.effects().send(p, Message::Stop);
    }
}
