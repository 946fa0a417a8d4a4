//! `maniple broadcast`.

use crate::Failure;
use crate::machines::reduced::warn_without_costs;
use crate::micro::run_error;
use crate::options::counts::Counts;
use crate::options::help::exit_codes;
use crate::options::numbers::{at_least_one, check_memory, count};
use crate::options::sends::Sends;
use crate::options::wire::Wire;
use crate::options::workers::{OnWorkers, Place};
use crate::options::{Reported, Traced};
use crate::output::{Output, expect_verified, field, table_of_sizes};
use maniple::mapper::MapperSlot;
use maniple::runtime::Runtime;
use maniple_apps::broadcast::run;
use maniple_stencil::plural;

/// Send a tile to several nodes, where a task of a flow needs it
#[derive(Debug, clap::Args)]
#[command(after_help = concat!(
    "A task on the first node writes the tile. Tasks on other nodes read it, and the runtime finds that they need the same values.\n\n",
    "Columns of the report:\n",
    "  machine      in virtual time: the name of the machine
  bytes        bytes of the tile
  broadcast    way of the tile, if one is given
  under_way    large values that may be leaving a node at a time
  recipients   nodes that get the tile
  verified     whether each has got it
  time_us      time from the first launch until all tasks have ended
  sends        messages from the first node, each along a way to one node or more
  forwards     messages of nodes that passed the tile on

",
    exit_codes!()
))]
pub struct BroadcastOptions {
    /// Numbers of nodes that get the tile, increasing, with commas between them. A..B stands for A, 2A, 4A and so on, up to B
    /// [default in virtual time: 1..64, otherwise all other processes]
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    recipients: Option<Counts>,

    /// Bytes of the tile. In virtual time it has one number, which stands for them
    #[arg(long, value_name = "N", default_value_t = 8_000_000, value_parser = count, allow_negative_numbers = true)]
    bytes: usize,

    #[command(flatten)]
    sends: Sends,

    #[command(flatten)]
    on: OnWorkers,

    #[command(flatten)]
    reported: Reported,
}

/// Does the runs and reports them.
pub fn execute(args: &BroadcastOptions) -> Result<(), Failure> {
    let bytes = at_least_one("bytes", args.bytes)?;
    let is_virtual = args.on.workers.wire.wire() == Wire::Virtual;
    if !is_virtual {
        // A process has the tile, and one that sends it has it once more. Several may be on a host.
        check_memory(&format!("a tile of {}", plural(bytes, "byte")), bytes, 2)?;
    }
    let elements = match is_virtual {
        true => 1,
        false => u32::try_from(bytes.div_ceil(8)).map_err(|_| Failure::Usage(format!("--bytes: too many, {bytes}")))?,
    };
    let all = match &args.recipients {
        Some(counts) => counts.0.clone(),
        None if is_virtual => vec![1, 2, 4, 8, 16, 32, 64],
        None => vec![others(args)?],
    };
    let untraced = Traced::default();
    let mut output = Output::new(args.reported.format);
    let mut unverified = Vec::new();
    let mut run = |recipients: usize| {
        let change = |mapper: &MapperSlot| args.sends.change(mapper);
        let runtime = match is_virtual {
            true => {
                let wire = &args.on.workers.wire;
                let machine = wire.build(wire.file()?, Some(recipients + 1), 1)?;
                if output.is_empty() {
                    warn_without_costs(&machine);
                }
                Runtime::virtual_time(machine).mapper(args.on.slot(change)?)
            }
            false => args.on.runtime_with(1, &untraced, change)?.1,
        };
        let nodes = u32::try_from(recipients).map_err(|_| Failure::Usage(format!("--recipients: {recipients}")))?;
        let found = run(&args.sends.on(runtime), nodes, elements, bytes).map_err(run_error)?;
        if !found.verified {
            unverified.push(format!("{recipients} recipients: a node has other values"));
        }
        let mut record = vec![
            field("program", "broadcast"),
            field("wire", args.on.workers.wire.name()),
            field("machine", is_virtual.then(|| args.on.workers.wire.machine_name().to_owned())),
            field("bytes", bytes),
        ];
        record.extend(args.sends.fields());
        record.extend([
            field("recipients", recipients),
            field("verified", found.verified),
            field("time_us", found.time.as_secs_f64() * 1e6),
            field("sends", found.stats.sends),
            field("forwards", found.stats.forwards),
        ]);
        output.add(record)
    };
    let done = all.iter().try_for_each(|recipients| run(*recipients));
    // The runs before one that failed are reported.
    let finished = output.finish_with(table_of_sizes);
    done?;
    finished?;
    expect_verified(all.len(), "run", &unverified)
}

/// The other processes of the run, at least one.
fn others(args: &BroadcastOptions) -> Result<usize, Failure> {
    match args.on.workers.place(1)?.0 {
        Place::Processes(processes) if processes.number > 1 => Ok(processes.number - 1),
        _ => Err(Failure::Usage(
            "a broadcast needs several nodes: use --wire processes, --wire virtual, or a launcher of MPI".into(),
        )),
    }
}
