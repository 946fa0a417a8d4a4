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
    use maniple::plugin;
    use signal_hook::consts::SIGHUP;
    use signal_hook::iterator::{Handle, Signals};
    use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
    use std::sync::{Mutex, PoisonError};
    use std::thread;
    use std::time::Duration;

    /// How to end the thread that reads the file, and what closes when it has.
    static READER: Mutex<Option<(Handle, Receiver<()>)>> = Mutex::new(None);

    /// What reading the file again may still take when the command is over: it may load a library.
    const LIMIT: Duration = Duration::from_secs(15);

    pub fn on_signal(mapper: &MapperSpec) -> Result<(), Failure> {
        let Some(file) = mapper.file() else { return Ok(()) };
        let mut reader = READER.lock().unwrap_or_else(PoisonError::into_inner);
        if reader.is_some() {
            return Ok(());
        }
        // Before there is a thread that could ask.
        mapper.slot(&plugin::load).map_err(|e| Failure::Usage(e.to_string()))?;
        let failed = |e| Failure::Run(format!("can't listen for signals to reload {}: {e}", file.display()));
        let mut signals = Signals::new([SIGHUP]).map_err(failed)?;
        let (handle, mapper) = (signals.handle(), mapper.clone());
        let (end, ended) = mpsc::channel();
        let read = move || {
            for _ in signals.forever() {
                match mapper.reload(&plugin::load) {
                    Ok(()) => note(format_args!("mapper {mapper} was read again")),
                    Err(e) => warn(format_args!("{e}; the mapper before goes on")),
                }
            }
            drop((mapper, end));
        };
        thread::Builder::new().name("mapper file".into()).spawn(read).map_err(failed)?;
        *reader = Some((handle, ended));
        Ok(())
    }

    pub fn stop() {
        let Some((handle, ended)) = READER.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        handle.close();
        // Nothing is ever sent. A library that does not let go must not keep the command.
        if ended.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            warn("the mapper is still being read again; what it had to write may be lost");
        }
    }
}
