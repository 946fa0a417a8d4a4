//! Replacing the mapper of a running command: `--mapper @FILE`, and a hangup signal when FILE has changed.

use crate::{Failure, note, warn};
use maniple::mapper::MapperSpec;

/// On each SIGHUP from now on, reads the file of an `@FILE` again; what is wrong with it then is a warning, and the mapper
/// before goes on. Other mappers leave the signal alone.
#[cfg(unix)]
pub fn on_signal(mapper: &MapperSpec) -> Result<(), Failure> {
    use signal_hook::{consts::SIGHUP, iterator::Signals};
    let Some(file) = mapper.file() else { return Ok(()) };
    // Before there is a thread that could ask.
    mapper.slot().map_err(|e| Failure::Usage(e.to_string()))?;
    let mut signals = Signals::new([SIGHUP])
        .map_err(|e| Failure::Run(format!("can't listen for signals to reload {}: {e}", file.display())))?;
    let mapper = mapper.clone();
    std::thread::spawn(move || {
        for _ in signals.forever() {
            match mapper.reload() {
                Ok(()) => note(format_args!("mapper {mapper} was read again")),
                Err(e) => warn(format_args!("{e}; the mapper before goes on")),
            }
        }
    });
    Ok(())
}

#[cfg(not(unix))]
pub fn on_signal(_: &MapperSpec) -> Result<(), Failure> {
    Ok(())
}
