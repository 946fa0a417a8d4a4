//! `maniple schedule`.

use crate::Failure;
use crate::collective::kind::KindOptions;

/// Show the schedule of a collective
#[derive(Debug, clap::Args)]
pub struct ScheduleOptions {
    #[command(flatten)]
    kind: KindOptions,
}

/// Prints it.
pub fn execute(args: &ScheduleOptions) -> Result<(), Failure> {
    let _ = args.kind.parties(1)?;
    Ok(())
}
