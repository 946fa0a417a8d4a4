//! `maniple-experiments figures`: papers' figures, in virtual time.

mod aspen;
mod broadcasts;
mod changes;
mod curves;
mod dissemination;
mod founding;
mod overlap;
mod report;
mod runs;
mod study;
mod verdicts;

use clap::ValueEnum;
use maniple_command::Failure;
use maniple_command::options::help::exit_codes;
use maniple_command::options::numbers::count;
use maniple_command::options::wire::InVirtualTime;
use std::path::PathBuf;

/// Redo a paper's figures on machines in virtual time
#[derive(Debug, clap::Args)]
#[command(after_help = concat!("\
Programs run on machines in virtual time, with one shard for each node, except conjugate gradients in `overlap`. The same code runs as on threads, and every run is \
verified. Times follow from the machines' files, so the shapes of the curves come from the structure of the programs.

--paper founding: Scalable collectives for distributed asynchronous many-task runtimes
  Figure 4  one collective inside the stencil
  Figure 5  an allreduce by MPI, on titan-mpi
  Figure 6  one iteration of the stencil
  Figure 8  one iteration of the aggregation version
Runs with 16 to 512 shards have 1000 cells for each shard and 20 iterations. The first 5 do not count, because shards start one \
after the other, nor the last 3, because they launch no others ahead. Runs with more shards have 16 cells for each shard, whose \
kernels take as long as with 1000, and 7 iterations without the first 2 and the last 3. \
In addition, a collective and an iteration run on threads of this host with 2 to 512 shards, beside their predictions, as in \
`maniple-experiments predict`.

--paper dissemination: Adaption of the n-way dissemination algorithm for GASPI split-phase allreduce
  Figure 2  a barrier on QDR InfiniBand
  Figure 3  a barrier on FDR InfiniBand
  Figure 4  an allreduce of 1 and of 255 elements on QDR
  Figure 5  an allreduce of 1 element on FDR
Dissemination with 1 to 7 messages a round runs on gpi-fdr and gpi-qdr, and MPI's algorithms on gpi-fdr-mpi and gpi-qdr-mpi. \
A second section compares dissemination, recursive doubling and radix exchange on infiniband.

--paper aspen: Advanced collective communication in Aspen
  Figure 12  reductions that overlap, on 4 nodes
They run one by one, at the same time, and balanced, as in `maniple-experiments overlap`, on aspen-gigabit and ethernet. Beside the paper's \
program there are two that gain from balance.

--paper broadcasts: Using dynamic broadcasts to improve task-based runtime performances
  Figure 2  a tile of 8 MB that goes to 1 to 99 nodes
  Figure 4  a Cholesky factorisation on 16 nodes
  Figure 5  the same on 64 and on 100 nodes
Matrices of 10 to 200 rows of tiles run on plafrim and inti, with linear and with binomial broadcasts, and with one large message to each other node under way or one in all.

--paper overlap: Optimizing computation-communication overlap in asynchronous task-based programs
  Figures 9 and 13  an iteration of conjugate gradients, as in HPCG and MiniFE
  Figure 10         2D and 3D FFT
  Figure 11         traces of a 2D FFT
  Figure 12         word count, and a matrix times a vector
Programs run on processes of 8 cores of marenostrum4, whole and with tasks that start on parts, by polling, by callbacks and with a \
communication thread.

Bands show the results with each number of a machine halved and doubled. Narrow bands change one number at a time. Wide bands \
change all at once: --draws times at random, and twice so that a result grows most and least. Shares are \
d ln(result) / d ln(number), between half and twice the number.

The directory gets a page (index.html), plots (SVG), points.csv, shares.csv and figures.json, for the founding paper also \
predictions.csv. For overlap it gets iterations.csv, whole.json and parts.json in place of shares.csv. With the founding paper they are written after 512 shards, and again after each larger number.

", exit_codes!("the arguments or the files are at fault")))]
pub struct FiguresOptions {
    /// Paper whose figures are redone
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Paper::Founding)]
    paper: Paper,

    /// Write page, plots and numbers to this directory, which must be new or empty
    #[arg(long, value_name = "DIR")]
    output: PathBuf,

    #[command(flatten)]
    _wire: InVirtualTime,

    /// For the founding paper: machine in virtual time, by name or as a file that ends in .toml [default: titan-legion]
    #[arg(long, value_name = "NAME|FILE")]
    machine: Option<String>,

    /// Largest number of shards. For the founding paper 128, 256, 512, 1024, or 1024 times a power of four; 1048576 takes an hour
    /// and 23 GiB, 65536 four minutes. For dissemination at least 4. For aspen the largest number of elements of a vector, at least 4.
    /// For broadcasts the largest number of rows of tiles, at least 10. For overlap a power of two from 4 to 512
    /// [default: 1048576, for dissemination and overlap 512, for aspen 65536, for broadcasts 200]
    #[arg(long, value_name = "P", value_parser = count, allow_negative_numbers = true)]
    to: Option<usize>,

    /// How many times all numbers of the machines are halved or doubled at random
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = count, allow_negative_numbers = true)]
    draws: usize,

    /// For the founding paper: machine in virtual time that describes this host, for the predictions [default: calibrated between
    /// the measurements, and written to host.toml]
    #[arg(long, value_name = "NAME|FILE")]
    host: Option<String>,

    #[arg(long, value_name = "R", value_parser = count, allow_negative_numbers = true, help = REPEAT_HELP)]
    repeat: Option<usize>,
}

const REPEAT_HELP: &str = "For the founding paper: number of runs on threads of each program with each number of shards, and of \
    turns of the calibration between them; with 0 there are no predictions [default: 21]";

/// The papers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Paper {
    /// Scalable collectives for distributed asynchronous many-task runtimes
    Founding,
    /// Adaption of the n-way dissemination algorithm for GASPI split-phase allreduce
    Dissemination,
    /// Advanced collective communication in Aspen
    Aspen,
    /// Using dynamic broadcasts to improve task-based runtime performances
    Broadcasts,
    /// Optimizing computation-communication overlap in asynchronous task-based programs
    Overlap,
}

/// Does the runs and writes the report.
pub fn execute(args: &FiguresOptions) -> Result<(), Failure> {
    match args.paper {
        Paper::Founding => founding::execute(args),
        Paper::Dissemination | Paper::Aspen | Paper::Broadcasts | Paper::Overlap
            if args.machine.is_some() || args.host.is_some() || args.repeat.is_some() =>
        {
            Err(Failure::Usage("--machine, --host and --repeat are for --paper founding".into()))
        }
        Paper::Dissemination => dissemination::execute(args),
        Paper::Aspen => aspen::execute(args),
        Paper::Broadcasts => broadcasts::execute(args),
        Paper::Overlap => overlap::execute(args),
    }
}
