//! Replacing the mapper of a running command: `--mapper @FILE`, and a hangup signal after FILE has changed. On several
//! processes the one that gets the signal reads FILE, and all make the mapper that its first line names.

use crate::Failure;
use maniple::mapper::MapperSpec;
use maniple::runtime::Runtime;

/// Reads the file of an `@FILE` again on each SIGHUP, until [`stop`]. If a process can't make the mapper, there is a warning,
/// and the old mapper stays in all. For other mappers the signal keeps its meaning. A command has one mapper: a second call
/// does nothing. Collective on several processes, which `runtime` has.
pub fn on_signal(mapper: &MapperSpec, runtime: &Runtime) -> Result<(), Failure> {
    #[cfg(unix)]
    unix::on_signal(mapper, runtime)?;
    #[cfg(not(unix))]
    let _ = (mapper, runtime);
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
    use maniple::runtime::{MapperSwitch, Runtime};
    use signal_hook::consts::SIGHUP;
    use signal_hook::iterator::{Handle, Signals};
    use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
    use std::sync::{Mutex, PoisonError};
    use std::thread;
    use std::time::Duration;

    /// What ends the reading, and a channel that closes when it has ended.
    static READER: Mutex<Option<(Handle, MapperSwitch, Receiver<()>)>> = Mutex::new(None);

    /// How long reading the file may still take at the end of the command. It may load a library.
    const LIMIT: Duration = Duration::from_secs(15);

    pub fn on_signal(mapper: &MapperSpec, runtime: &Runtime) -> Result<(), Failure> {
        let Some(file) = mapper.file() else { return Ok(()) };
        let mut reader = READER.lock().unwrap_or_else(PoisonError::into_inner);
        if reader.is_some() {
            return Ok(());
        }
        // Before the threads that may ask for it.
        let slot = mapper.slot(&plugin::load).map_err(|e| Failure::Usage(e.to_string()))?;
        let failed = |e: &dyn std::fmt::Display| {
            Failure::Run(format!("can't listen for signals to reload {}: {e}", file.display()))
        };
        let (end, ended) = mpsc::channel::<()>();
        let (of_make, made) = (mapper.clone(), end.clone());
        let make = move |line: &str| {
            let _until_then = &made;
            of_make.make(line, &plugin::load).map_err(|e| e.to_string())
        };
        let switch = MapperSwitch::new(runtime, &slot, make).map_err(|e| failed(&e))?;
        let mut signals = Signals::new([SIGHUP]).map_err(|e| failed(&e))?;
        let (handle, mapper, asks) = (signals.handle(), mapper.clone(), switch.clone());
        let read = move || {
            for _ in signals.forever() {
                // One that is empty names no mapper.
                let outcome = match mapper.line() {
                    Ok(line) => {
                        asks.replace(&line.unwrap_or_default()).recv().map(|done| done.map_err(|e| e.to_string()))
                    }
                    Err(e) => Ok(Err(e.to_string())),
                };
                match outcome {
                    Ok(Ok(())) => note(format_args!("mapper {mapper} was read again")),
                    // Only this process knows of it.
                    Ok(Err(e)) => note(format_args!("warning: {e}; the old mapper stays")),
                    // The command ends.
                    Err(_) => break,
                }
            }
            drop((mapper, asks, end));
        };
        thread::Builder::new().name("mapper file".into()).spawn(read).map_err(|e| failed(&e))?;
        *reader = Some((handle, switch, ended));
        Ok(())
    }

    pub fn stop() {
        let Some((handle, switch, ended)) = READER.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        handle.close();
        switch.close();
        drop(switch);
        // Nothing is ever sent. A library that hangs must not keep the command waiting.
        if ended.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            warn("the mapper's file is still being read; the rest of the mapper's own output may be lost");
        }
    }
}
