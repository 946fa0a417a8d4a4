//! What the rows run on, and what they are compared with: this host, or machines in virtual time.

use super::others::{self, Pair};
use crate::Failure;
use crate::compare::mpi::{MpiMachine, SAY_MPI_MACHINE};
use crate::machines::file::MachineFile;
use crate::machines::reduced;
use crate::measure::yardstick::Yardstick;
use crate::micro::kernel;
use crate::options::wire::{Invocation, OnWire};
use maniple::runtime::Runtime;
use maniple::runtime::VirtualMachine;
use maniple_stencil::Config;
use std::sync::Arc;

/// Workers of all rows: the targets are those of two processors.
pub const WORKERS: u32 = 2;

/// What all rows run on.
pub struct Platform {
    machines: Option<Machines>,
    yardstick: Yardstick,
    /// For a process of its own.
    invocation: Invocation,
}

/// Machines in virtual time, of which two processors take part.
struct Machines {
    here: VirtualMachine,
    /// What stands for MPI, where that is known.
    mpi: Option<VirtualMachine>,
    /// Name, and what machine it is.
    about: String,
    mpi_about: Option<String>,
    /// The options that say all this.
    options: Vec<String>,
}

impl Platform {
    /// As the options say; refuses machines that have no two processors for shards.
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

    /// In virtual time, which machine it is.
    pub fn about(&self) -> Option<&str> {
        self.machines.as_ref().map(|machines| &*machines.about)
    }

    /// The same of MPI's machine, where it is known.
    pub fn mpi_about(&self) -> Option<&str> {
        self.machines.as_ref().and_then(|machines| machines.mpi_about.as_deref())
    }

    /// The options that ask for it.
    pub fn options(&self) -> &[String] {
        self.machines.as_ref().map_or(&[], |machines| &machines.options)
    }

    /// What a process of its own that does a run is told.
    pub fn invocation(&self) -> &Invocation {
        &self.invocation
    }

    /// Two workers.
    pub fn runtime(&self) -> Runtime {
        self.machine().map_or_else(|| Runtime::threads(WORKERS), |machine| Runtime::virtual_time(machine.clone()))
    }

    /// One worker.
    pub fn one_worker(&self) -> Runtime {
        let machine = self.machine().map(reduced::one_processor);
        machine.map_or_else(|| Runtime::threads(1), Runtime::virtual_time)
    }

    /// Two workers for the stencil.
    pub fn config(&self, config: Config) -> Config {
        match self.machine() {
            None => Config { workers: WORKERS as usize, ..config },
            Some(machine) => Config { machine: Some(Arc::new(machine.clone())), ..config },
        }
    }

    /// The stencil's kernel: nanoseconds an iteration, and whether all is right.
    pub fn kernel(&self, cells: usize, iterations: usize) -> Result<(f64, bool), Failure> {
        match self.machine() {
            None => kernel::measure(cells, iterations),
            Some(machine) => kernel::measure_on(machine, cells, iterations.min(kernel::ENOUGH)),
        }
    }

    /// The yardstick in nanoseconds, where there is one.
    pub fn exchange_ns(&self) -> Option<f64> {
        Some(self.yardstick.ns()).filter(|e| !e.is_nan())
    }

    /// The allreduce that `us` measures on a runtime, here and with MPI, or why there is nothing to compare with.
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
        Ok(Ok(Pair { ours_us: us(&self.runtime())?, mpi_us, exchange_ns: self.exchange_ns() }))
    }

    /// What only this host has, or why there is nothing to compare with.
    pub fn of_host<T>(&self, what: &str, value: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        match &self.machines {
            None => value(),
            Some(_) => Err(format!("nothing to compare with in virtual time: {what} is of this host")),
        }
    }
}
