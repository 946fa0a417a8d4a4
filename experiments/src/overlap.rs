//! `maniple-experiments overlap`: reductions that overlap, in virtual time.

use clap::ValueEnum;
use maniple::collectives::{Algorithm, Load, Plan};
use maniple::prelude::*;
use maniple::runtime::VirtualMachine;
use maniple_command::Failure;
use maniple_command::machines::file::MachineFile;
use maniple_command::micro::{now, run_error};
use maniple_command::options::counts::Counts;
use maniple_command::options::help::exit_codes;
use maniple_command::options::numbers::{check_memory, count};
use maniple_command::options::wire::InVirtualTime;
use maniple_command::options::{Iterations, Reported};
use maniple_command::output::{Output, Record, field, styled};
use std::sync::Arc;
use std::time::Duration;
use tabled::builder::Builder;

/// Measure reductions that overlap, one after the other, at the same time and balanced, on a machine in virtual time
#[derive(Debug, clap::Args)]
#[command(after_help = concat!("\
Each shard has a node of its own. The sums are of vectors of 64-bit floats. Three programs compute the same:
  one by one  a reduction to the first receiver by a binomial tree, and a broadcast to the others; then the next reduction. \
Each shard waits for its part of one before the next
  concurrent  all reductions at the same time, each made by itself
  balanced    all reductions at the same time, made together in a plan

It is the experiment of Figure 12 in \"Advanced collective communication in Aspen\", whose program is in its Figure 5.

Columns of the report:
  machine, nodes      the name of the machine, and the number of its nodes
  workload            the reductions
  elements, bytes     elements of a vector, and its bytes
  verified            whether every shard got the right sums
  one_by_one_us, concurrent_us, balanced_us
                      microseconds from the moment when all shards begin until the last one is through, the mean of all calls \
after the warm-up
  one_by_one_next_us, concurrent_next_us, balanced_next_us
                      microseconds for each call if every shard goes on to the next call at once
  concurrent_messages, balanced_messages
                      most messages that a shard sends or receives in a call

", exit_codes!()))]
#[command(mut_arg("iterations", |arg| {
    arg.default_value("10").help("Calls that are measured, each way. Some come before them to warm up")
}))]
pub struct OverlapOptions {
    #[command(flatten)]
    _wire: InVirtualTime,

    /// Machine in virtual time, by name or as a file that ends in .toml
    #[arg(long, value_name = "NAME|FILE", default_value = "ethernet")]
    machine: String,

    /// Only these reductions [default: all]
    #[arg(long, value_name = "NAME")]
    workload: Option<Workload>,

    /// Number of shards of the workload `each`, at most 256
    #[arg(long, value_name = "P", default_value_t = 4, value_parser = count, allow_negative_numbers = true)]
    shards: usize,

    /// Numbers of elements, increasing, with commas between them. A..B stands for A, 2A, 4A and so on, up to B
    #[arg(long, value_name = "LIST", default_value = "1,8,64,512,1024,2048,4096,8192,16384,32768,262144")]
    #[arg(allow_hyphen_values = true)]
    elements: Counts,

    #[command(flatten)]
    iterations: Iterations,

    #[command(flatten)]
    reported: Reported,
}

/// Reductions that overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// The paper's: four shards reduce to shards 0 and 2, and shards 1 and 2 to shard 3
    Paper,
    /// The same with the shards in reverse: four reduce to shards 1 and 3, and shards 1 and 2 to shard 0
    Reverse,
    /// All shards reduce to each of them
    Each,
}

/// The contributors and receivers of one reduction. Those who act alone for the others come first.
#[derive(Debug, Clone)]
struct Reduction {
    from: Vec<u32>,
    to: Vec<u32>,
}

impl Workload {
    /// The name of the workload.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Paper => "paper",
            Workload::Reverse => "reverse",
            Workload::Each => "each",
        }
    }

    /// The shards, and the reductions.
    fn reductions(self, shards: u32) -> (u32, Vec<Reduction>) {
        let reduction = |from: &[u32], to: &[u32]| Reduction { from: from.into(), to: to.into() };
        match self {
            Workload::Paper => (4, vec![reduction(&[0, 1, 2, 3], &[0, 2]), reduction(&[1, 2], &[3])]),
            Workload::Reverse => (4, vec![reduction(&[3, 2, 1, 0], &[3, 1]), reduction(&[2, 1], &[0])]),
            Workload::Each => {
                let all: Vec<u32> = (0..shards).collect();
                (shards, all.iter().map(|&to| reduction(&all, &[to])).collect())
            }
        }
    }
}

/// The programs that compute the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    OneByOne,
    Concurrent,
    Balanced,
}

/// The most shards: as many reductions send a message from each.
const MOST: u32 = 256;

/// The calls to warm up.
const WARM_UP: u64 = 3;

/// Calls of some reductions by one of the programs.
struct Calls {
    version: Version,
    reductions: Vec<Reduction>,
    elements: usize,
    calls: u64,
}

/// The objects of one reduction. Without the last two it hands its result out itself.
type Objects = (Collective<[f64]>, Option<Collective<[f64]>>);

/// What a program has found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// Whether every shard got the right sums.
    pub verified: bool,
    /// Microseconds from the moment when all shards begin until the last one is through.
    pub latency_us: f64,
    /// Microseconds for each call if every shard goes on to the next one at once.
    pub next_us: f64,
    /// See [`Messages`].
    pub messages: Messages,
}

/// The most messages that a shard sends or receives in a call: in a plan, and of collectives made one by one. Only a plan
/// tells.
pub type Messages = Option<[u64; 2]>;

impl Calls {
    /// The time between the beginnings of two calls: far more than a call takes.
    fn period(&self) -> Duration {
        let bytes = size_of::<f64>() * self.elements * self.reductions.len();
        Duration::from_millis(10) + Duration::from_nanos(100 * bytes as u64)
    }

    /// A shard's contribution to a reduction, by its number.
    fn value(&self, number: usize, shard: u32, call: u64) -> Vec<f64> {
        let first = f64::from(shard + 1) * (call % 1024 + 1) as f64;
        (number..).take(self.elements).map(|element| first + element as f64).collect()
    }

    /// Whether this is the sum of these contributions. All of them are whole numbers.
    fn is_right(&self, number: usize, call: u64, came: &[f64]) -> bool {
        let from = &self.reductions[number].from;
        let shards: u32 = from.iter().map(|shard| shard + 1).sum();
        let first = f64::from(shards) * (call % 1024 + 1) as f64;
        let right = (number..).zip(came).all(|(element, &x)| x == first + (element * from.len()) as f64);
        right && came.len() == self.elements
    }

    /// One call of all reductions.
    async fn call(&self, shard: &Shard, objects: &[Objects], call: u64) -> Result<bool, Error> {
        let me = shard.index();
        let mut right = true;
        if self.version == Version::OneByOne {
            for (number, (reduction, (reduce, broadcast))) in self.reductions.iter().zip(objects).enumerate() {
                let mut came = None;
                if reduction.from.contains(&me) {
                    reduce.contribute(shard, self.value(number, me, call))?.await?;
                }
                if root(reduction) == me {
                    came = Some(reduce.receive(shard)?.await?);
                }
                if let Some(broadcast) = broadcast {
                    match came.clone() {
                        Some(sum) => broadcast.contribute(shard, sum)?.await?,
                        None if reduction.to.contains(&me) => came = Some(broadcast.receive(shard)?.await?),
                        None => {}
                    }
                }
                if reduction.to.contains(&me) {
                    right &= came.is_some_and(|came| self.is_right(number, call, &came));
                }
            }
            return Ok(right);
        }
        let (mut over, mut sums) = (Vec::new(), Vec::new());
        for (number, (reduction, (reduce, _))) in self.reductions.iter().zip(objects).enumerate() {
            if reduction.from.contains(&me) {
                over.push(reduce.contribute(shard, self.value(number, me, call))?);
            }
            if reduction.to.contains(&me) {
                sums.push((number, reduce.receive(shard)?));
            }
        }
        for (number, sum) in sums {
            right &= self.is_right(number, call, &sum.await?);
        }
        for end in over {
            end.await?;
        }
        Ok(right)
    }

    /// All calls: first each at its own time, which is the same for all shards, and then one right after the other.
    async fn shard(self: Arc<Self>, shard: Shard, objects: Vec<Objects>) -> Result<(bool, Vec<(u64, u64)>), Error> {
        let (mut right, mut times) = (true, Vec::new());
        let calls = WARM_UP + self.calls;
        for call in 0..=calls {
            let begins = self.period() * (call as u32 + 1);
            let left = begins.saturating_sub(maniple::runtime::now());
            shard.launch(|| (), ()).takes(left).go()?.await?;
            let began = now();
            for call in if call < calls { call..call + 1 } else { calls..calls + self.calls } {
                right &= self.call(&shard, &objects, call).await?;
            }
            times.push((began, now()));
        }
        Ok((right, times))
    }

    fn objects(&self, top: &Top, gang: &Gang) -> Result<(Vec<Objects>, Messages), Error> {
        let name = |at: usize, what: &str| format!("{what} {at}");
        let reduce = |reduction: &Reduction, to: Vec<u32>| {
            Collective::reduce(Operator::<f64>::sum(), to)
                .participants(reduction.from.iter().copied())
                .algorithm(Algorithm::RecursiveDoubling)
                .elements(self.elements)
        };
        let whole = || self.reductions.iter().enumerate().map(|(at, r)| (name(at, "sum"), reduce(r, r.to.clone())));
        match self.version {
            Version::OneByOne => {
                let objects = self.reductions.iter().enumerate().map(|(at, reduction)| {
                    let root = root(reduction);
                    let sum = reduce(reduction, vec![root]).make(top, gang, &name(at, "sum"))?;
                    let others: Vec<u32> = reduction.to.iter().copied().filter(|&to| to != root).collect();
                    let broadcast = (!others.is_empty()).then(|| {
                        let broadcast = Collective::<f64>::broadcast(root).receivers(others).elements(self.elements);
                        broadcast.algorithm(Algorithm::Binomial).make(top, gang, &name(at, "result"))
                    });
                    Ok((sum, broadcast.transpose()?))
                });
                Ok((objects.collect::<Result<_, Error>>()?, None))
            }
            Version::Concurrent => {
                let made = whole().map(|(name, sum)| Ok((sum.make(top, gang, &name)?, None)));
                Ok((made.collect::<Result<_, Error>>()?, None))
            }
            Version::Balanced => {
                let plan = Plan::make(top, gang, whole().collect::<Vec<_>>())?;
                let most = |loads: &[Load]| {
                    let messages = loads.iter().flat_map(|load| [load.sent.messages, load.received.messages]);
                    messages.max().unwrap_or(0)
                };
                let messages = [plan.loads(), plan.loads_alone()].map(most);
                Ok((plan.collectives.into_iter().map(|sum| (sum, None)).collect(), Some(messages)))
            }
        }
    }

    fn run(self, machine: &VirtualMachine, shards: u32) -> Result<Found, Failure> {
        let this = Arc::new(self);
        let calls = this.calls;
        let (results, _) = Runtime::virtual_time(machine.clone())
            .run(move |top| {
                let this = this.clone();
                async move {
                    let gang = top.gang("all", shards)?;
                    let (objects, messages) = this.objects(&top, &gang)?;
                    let task = top.register("calls", move |shard, objects| this.clone().shard(shard, objects));
                    let all = top.launch_gang(&gang, &task, |_| ShardLaunch::new(objects.clone()))?.all().await?;
                    Ok((all, messages))
                }
            })
            .map_err(run_error)?;
        let (shards, messages) = results;
        // From the first that begins to the last that ends.
        let took = |call: usize| {
            let began = shards.iter().map(|(_, times)| times[call].0).min().unwrap_or(0);
            let ended = shards.iter().map(|(_, times)| times[call].1).max().unwrap_or(0);
            (ended - began) as f64 / 1000.0
        };
        let (first, last) = (WARM_UP as usize, (WARM_UP + calls) as usize);
        Ok(Found {
            verified: shards.iter().all(|(right, _)| *right),
            latency_us: (first..last).map(took).sum::<f64>() / calls as f64,
            next_us: took(last) / calls as f64,
            messages,
        })
    }
}

/// The shard that gets the sum first: a receiver that contributes, or else a contributor.
fn root(reduction: &Reduction) -> u32 {
    let receiver = reduction.to.iter().find(|to| reduction.from.contains(to));
    *receiver.unwrap_or(&reduction.from[0])
}

/// Measures one workload: one by one, concurrent, and balanced. `shards` is for the workload [`Each`](Workload::Each). The machine
/// has a node for each shard.
///
/// # Errors
/// A machine that can't be, or a run that failed.
pub fn measure(
    machine: &VirtualMachine,
    (workload, shards): (Workload, u32),
    elements: usize,
    calls: u64,
) -> Result<[Found; 3], Failure> {
    let (shards, reductions) = workload.reductions(shards);
    machine.check().map_err(|e| Failure::Usage(e.to_string()))?;
    // Each shard holds a contribution to each reduction, and one that comes.
    let vectors = 2 * shards as usize * reductions.len();
    check_memory(&format!("vectors of {elements} elements"), vectors, size_of::<f64>() as u128 * elements as u128)?;
    let run = |version| Calls { version, reductions: reductions.clone(), elements, calls }.run(machine, shards);
    Ok([run(Version::OneByOne)?, run(Version::Concurrent)?, run(Version::Balanced)?])
}

/// Measures and reports.
pub fn execute(args: &OverlapOptions) -> Result<(), Failure> {
    let calls = args.iterations.number()? as u64;
    let shards = args.shards.try_into().ok().filter(|shards| (1..=MOST).contains(shards));
    let Some(shards) = shards else {
        return Err(Failure::Usage(format!("--shards: expected 1 to {MOST}, found {}", args.shards)));
    };
    let file = MachineFile::load(&args.machine)?;
    let mut output = Output::new(args.reported.format);
    let mut wrong = 0;
    let asked = |known: &&Workload| args.workload.is_none_or(|asked| asked == **known);
    for &workload in Workload::value_variants().iter().filter(asked) {
        let (nodes, _) = workload.reductions(shards);
        let machine = file.machine(Some(nodes), nodes);
        for &elements in &args.elements.0 {
            let all = measure(&machine, (workload, nodes), elements, calls)?;
            let verified = all.iter().all(|found| found.verified);
            wrong += usize::from(!verified);
            let [one_by_one, concurrent, balanced] = all;
            let [after, before] = balanced.messages.unwrap_or_default();
            output.add(vec![
                field("program", "overlap"),
                field("machine", &*file.name),
                field("nodes", machine.nodes),
                field("workload", workload.name()),
                field("elements", elements),
                field("bytes", size_of::<f64>() * elements),
                field("iterations", calls),
                field("verified", verified),
                field("one_by_one_us", one_by_one.latency_us),
                field("concurrent_us", concurrent.latency_us),
                field("balanced_us", balanced.latency_us),
                field("one_by_one_next_us", one_by_one.next_us),
                field("concurrent_next_us", concurrent.next_us),
                field("balanced_next_us", balanced.next_us),
                field("concurrent_messages", before),
                field("balanced_messages", after),
            ])?;
        }
    }
    output.finish_with(table)?;
    match wrong {
        0 => Ok(()),
        wrong => Err(Failure::Run(format!("{wrong} sizes not verified"))),
    }
}

/// A table without medians: each row is another program.
fn table(records: &[Record]) -> String {
    let mut rows = Builder::default();
    for record in records {
        let header = record.iter().skip(3).map(|(name, _)| (*name).to_owned());
        if rows.count_records() == 0 {
            rows.push_record(header);
        }
        rows.push_record(record.iter().skip(3).map(|(_, value)| value.people()));
    }
    let machine = records.first().map_or(String::new(), |record| format!("machine {}\n", record[1].1.people()));
    format!("{machine}{}\n", styled(rows, 1))
}
