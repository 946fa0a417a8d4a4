//! `maniple explore`.

mod draw;
mod oracle;
mod program;
mod run;
mod wild;

use crate::Failure;

/// Generated programs under schedules drawn from seeds
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Seeds
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// First seed
    #[arg(long, default_value_t = 0)]
    from: u64,
}

pub fn execute(args: &Args) -> Result<(), Failure> {
    let mut bad = 0;
    for seed in args.from..args.from + args.seeds {
        let program = draw::draw(seed);
        if let Err(w) = run::run(&program, &|r| r) {
            println!("seed {seed}: {:?}: {}", w.kind, w.what.lines().take(12).collect::<Vec<_>>().join("\n   "));
            bad += 1;
            if bad > 8 { break; }
        }
    }
    Ok(())
}
