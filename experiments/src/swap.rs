//! Replacing the mapper of a running command: `--mapper @FILE`, and a hangup signal when FILE has changed.

use crate::Failure;
use maniple::mapper::MapperSpec;

/// On each SIGHUP from now on and until [`stop`], reads the file of an `@FILE` again; what is wrong with it then is a
/// warning, and the mapper before goes on. Other mappers leave the signal alone. A command has one mapper: a second call does
/// nothing.
pub fn on_signal(mapper: &MapperSpec) -> Result<(), Failure> {
    #[cfg(unix)]
    unix::on_signal(mapper)?;
    #[cfg(not(unix))]
    let _ = mapper;
    Ok(())
}

/// Reads no file any more: nobody but the caller has the mapper then, and what it has still to write is written when it goes.
pub fn stop() {
    #[cfg(unix)]
    unix::stop();
}

#[cfg(unix)]
mod unix {
    use crate::{Failure, note, warn};
    use maniple::mapper::MapperSpec;
    use signal_hook::consts::SIGHUP;
    use signal_hook::iterator::{Handle, Signals};
    use std::sync::{Mutex, PoisonError};
    use std::thread::{self, JoinHandle};

    /// The thread that reads the file, and how to end it.
    static READER: Mutex<Option<(Handle, JoinHandle<()>)>> = Mutex::new(None);

    pub fn on_signal(mapper: &MapperSpec) -> Result<(), Failure> {
        let Some(file) = mapper.file() else { return Ok(()) };
        let mut reader = READER.lock().unwrap_or_else(PoisonError::into_inner);
        if reader.is_some() {
            return Ok(());
        }
        // Before there is a thread that could ask.
        mapper.slot().map_err(|e| Failure::Usage(e.to_string()))?;
        let failed = |e| Failure::Run(format!("can't listen for signals to reload {}: {e}", file.display()));
        let mut signals = Signals::new([SIGHUP]).map_err(failed)?;
        let (handle, mapper) = (signals.handle(), mapper.clone());
        let read = move || {
            for _ in signals.forever() {
                match mapper.reload() {
                    Ok(()) => note(format_args!("mapper {mapper} was read again")),
                    Err(e) => warn(format_args!("{e}; the mapper before goes on")),
                }
            }
        };
        let thread = thread::Builder::new().name("mapper file".into()).spawn(read).map_err(failed)?;
        *reader = Some((handle, thread));
        Ok(())
    }

    pub fn stop() {
        if let Some((handle, thread)) = READER.lock().unwrap_or_else(PoisonError::into_inner).take() {
            handle.close();
            // It prints what goes wrong itself.
            let _ = thread.join();
        }
    }
}
