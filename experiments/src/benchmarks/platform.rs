//! The platform of the rows and of the programs beside them: this host, or machines in virtual time.

use super::others::{self, Pair};
use maniple::runtime::Runtime;
use maniple::runtime::VirtualMachine;
use maniple_command::Failure;
use maniple_command::compare::mpi::{MpiMachine, SAY_MPI_MACHINE};
use maniple_command::machines::file::MachineFile;
use maniple_command::machines::reduced;
use maniple_command::measure::yardstick::Yardstick;
use maniple_command::micro::kernel;
use maniple_command::options::wire::{Invocation, OnWire};
use maniple_command::stencil::session::Config;
use std::sync::Arc;

/// The number of workers of all rows. Targets are for two processors.
pub const WORKERS: u32 = 2;

/// The platform of all rows.
pub struct Platform {
    machines: Option<Machines>,
    yardstick: Yardstick,
    /// For runs in a process of their own.
    invocation: Invocation,
}

/// Machines in virtual time. Two processors of each take part.
struct Machines {
    here: VirtualMachine,
    /// The machine that stands for MPI, if it is known.
    mpi: Option<VirtualMachine>,
    /// Name and description.
    about: String,
    mpi_about: Option<String>,
    /// The options of these machines.
    options: Vec<String>,
}

impl Platform {
    /// The platform that the options describe. Machines need two processors for shards.
    pub fn new(wire: &OnWire, mpi: &MpiMachine) -> Result<Self, Failure> {
        let workers = WORKERS as usize;
        let (here, mpi_machine) = (wire.machine(workers)?, mpi.load(wire, workers)?);
        let Some(here) = here else {
            let arguments = vec!["--workers".into(), WORKERS.to_string()];
            return Ok(Self {
                machines: None,
                yardstick: Yardstick::Host,
                invocation: Invocation { arguments, input: String::new() },
            });
        };
        let about = |file: &MachineFile| format!("{} in virtual time: {}", file.name, file.about);
        let here = reduced::expect_two_processors(&here)?;
        Ok(Self {
            invocation: wire.with_nodes(here.nodes).invocation()?,
            yardstick: Yardstick::of(Some(&here))?,
            machines: Some(Machines {
                here,
                mpi: mpi_machine.as_ref().map(reduced::expect_two_processors).transpose()?,
                about: about(wire.file()?),
                mpi_about: mpi.file(wire)?.map(about),
                options: [wire.arguments(), mpi.arguments()].concat(),
            }),
        })
    }

    fn machine(&self) -> Option<&VirtualMachine> {
        self.machines.as_ref().map(|machines| &machines.here)
    }

    /// In virtual time, the name and description of the machine.
    pub fn about(&self) -> Option<&str> {
        self.machines.as_ref().map(|machines| &*machines.about)
    }

    /// The name and description of MPI's machine, if it is known.
    pub fn mpi_about(&self) -> Option<&str> {
        self.machines.as_ref().and_then(|machines| machines.mpi_about.as_deref())
    }

    /// The options of this platform.
    pub fn options(&self) -> &[String] {
        self.machines.as_ref().map_or(&[], |machines| &machines.options)
    }

    /// The invocation of a process that does one run.
    pub fn invocation(&self) -> &Invocation {
        &self.invocation
    }

    /// A runtime with two workers.
    pub fn runtime(&self) -> Runtime {
        self.machine().map_or_else(|| Runtime::threads(WORKERS), |machine| Runtime::virtual_time(machine.clone()))
    }

    /// A runtime with one worker.
    pub fn one_worker(&self) -> Runtime {
        let machine = self.machine().map(reduced::one_processor);
        machine.map_or_else(|| Runtime::threads(1), Runtime::virtual_time)
    }

    /// The configuration of the stencil with two workers.
    pub fn config(&self, config: Config) -> Config {
        match self.machine() {
            None => Config { workers: WORKERS as usize, ..config },
            Some(machine) => Config { machine: Some(Arc::new(machine.clone())), ..config },
        }
    }

    /// Measures the stencil's kernel. Returns the nanoseconds of an iteration, and whether all is right.
    pub fn kernel(&self, cells: usize, iterations: usize) -> Result<(f64, bool), Failure> {
        match self.machine() {
            None => kernel::measure(cells, iterations),
            Some(machine) => kernel::measure_on(machine, cells, iterations.min(kernel::ENOUGH)),
        }
    }

    /// The yardstick in nanoseconds, if there is one.
    pub fn cache_line_ns(&self) -> Option<f64> {
        Some(self.yardstick.ns()).filter(|e| !e.is_nan())
    }

    /// Measures an allreduce here, by `us`, and with MPI. Otherwise returns the reason why there is nothing to compare with.
    pub fn beside_mpi(
        &self,
        (shards, elements, iterations): (u32, usize, usize),
        us: impl Fn(&Runtime) -> Result<f64, Failure>,
    ) -> Result<Result<Pair, String>, Failure> {
        let Some(machines) = &self.machines else {
            return others::allreduce_beside_mpi(shards, elements, iterations);
        };
        let Some(mpi) = &machines.mpi else { return Ok(Err(SAY_MPI_MACHINE.into())) };
        let mpi_us = us(&Runtime::virtual_time(mpi.clone()))?;
        if mpi_us == 0.0 {
            return Ok(Err("MPI takes no time on its machine".into()));
        }
        Ok(Ok(Pair { ours_us: us(&self.runtime())?, mpi_us, cache_line_ns: self.cache_line_ns() }))
    }

    /// A value that only this host has. In virtual time, the reason why there is nothing to compare with.
    pub fn of_host<T>(&self, what: &str, value: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        match &self.machines {
            None => value(),
            Some(_) => Err(format!("nothing to compare with in virtual time: {what} depends on this host")),
        }
    }
}
