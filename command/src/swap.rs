//! Replacing the mapper of a running command: `--mapper @FILE`, and a hangup signal after FILE has changed. Several processes
//! would take the new mapper at different places of the program, so they keep the old one.

use crate::Failure;
use maniple::mapper::MapperSpec;

/// Reads the file of an `@FILE` again on each SIGHUP, until [`stop`]. If the file is then wrong, or there are several
/// processes, there is a warning, and the old mapper stays. For other mappers the signal keeps its meaning. A command has one
/// mapper: a second call does nothing.
pub fn on_signal(mapper: &MapperSpec) -> Result<(), Failure> {
    #[cfg(unix)]
    unix::on_signal(mapper)?;
    #[cfg(not(unix))]
    let _ = mapper;
    Ok(())
}

/// Ends the reading of the file. Then the caller has the only copy of the mapper, which writes the rest when it is dropped.
pub fn stop() {
    #[cfg(unix)]
    unix::stop();
}

#[cfg(unix)]
mod unix {
    use crate::{Failure, note, warn};
    use maniple::mapper::MapperSpec;
    use maniple::plugin;
    use maniple::runtime::Runtime;
    use signal_hook::consts::SIGHUP;
    use signal_hook::iterator::{Handle, Signals};
    use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
    use std::sync::{Mutex, PoisonError};
    use std::thread;
    use std::time::Duration;

    /// What ends the reading, and a channel that closes when it has ended.
    static READER: Mutex<Option<(Handle, Receiver<()>)>> = Mutex::new(None);

    /// How long reading the file may still take at the end of the command. It may load a library.
    const LIMIT: Duration = Duration::from_secs(15);

    pub fn on_signal(mapper: &MapperSpec) -> Result<(), Failure> {
        let Some(file) = mapper.file() else { return Ok(()) };
        let mut reader = READER.lock().unwrap_or_else(PoisonError::into_inner);
        if reader.is_some() {
            return Ok(());
        }
        // Before the thread that may ask for it.
        mapper.slot(&plugin::load).map_err(|e| Failure::Usage(e.to_string()))?;
        let failed = |e| Failure::Run(format!("can't listen for signals to reload {}: {e}", file.display()));
        let mut signals = Signals::new([SIGHUP]).map_err(failed)?;
        let (handle, mapper) = (signals.handle(), mapper.clone());
        let (end, ended) = mpsc::channel();
        let read = move || {
            for _ in signals.forever() {
                match read_again(&mapper) {
                    Ok(()) => note(format_args!("mapper {mapper} was read again")),
                    Err(e) => warn(format_args!("{e}; the old mapper stays")),
                }
            }
            drop((mapper, end));
        };
        thread::Builder::new().name("mapper file".into()).spawn(read).map_err(failed)?;
        *reader = Some((handle, ended));
        Ok(())
    }

    fn read_again(mapper: &MapperSpec) -> Result<(), String> {
        match Runtime::process_count() {
            1 => mapper.reload(&plugin::load).map_err(|e| e.to_string()),
            n => Err(format!("mapper {mapper} is read again in runs of one process only, and this one has {n}")),
        }
    }

    pub fn stop() {
        let Some((handle, ended)) = READER.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        handle.close();
        // Nothing is ever sent. A library that hangs must not keep the command waiting.
        if ended.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            warn("the mapper's file is still being read; the rest of the mapper's own output may be lost");
        }
    }
}
