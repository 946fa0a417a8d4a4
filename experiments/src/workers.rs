//! The workers of a run, as every command that has some asks for them.

use maniple_stencil::{Bind, Config};

/// Options of commands that run on workers.
#[derive(Debug, clap::Args)]
pub struct Workers {
    /// Worker threads [default: the processors this process may use]
    #[arg(long, value_name = "W", value_parser = crate::count, allow_negative_numbers = true)]
    workers: Option<usize>,

    /// Where workers stay: none, where the operating system moves them; cores, each on a processor of its own if there are
    /// enough
    #[arg(long, value_name = "WHERE", default_value_t = Config::default().bind)]
    pub bind: Bind,

    /// Utility processors: so many of the workers, the last ones, run no leaf tasks and get no shards
    #[arg(long, value_name = "U", default_value_t = 0, value_parser = crate::count, allow_negative_numbers = true)]
    pub utility: usize,
}

impl Workers {
    /// How many.
    pub fn count(&self) -> usize {
        self.workers.unwrap_or_else(|| Config::default().workers)
    }

    /// These as arguments of this program.
    pub fn arguments(&self) -> Vec<String> {
        let (workers, bind, utility) = (self.count().to_string(), self.bind.to_string(), self.utility.to_string());
        ["--workers", &workers, "--bind", &bind, "--utility", &utility].map(str::to_owned).to_vec()
    }
}
