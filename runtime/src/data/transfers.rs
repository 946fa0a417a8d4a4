//! Data that a launch copies between instances of different processors before its shards start.

use super::instances::KeptInstance;
use super::{Choice, Data, region_error};
use crate::Error;
use crate::effects::Effects;
use crate::ids::{LaunchKey, ProcessorId};
use crate::message::{SharedMemory, Transfer};
use maniple_regions::{Buffer, Instance};
use std::rc::Rc;

/// From so many bytes on, to take the memory over is faster than to copy into the instance's own, which is warm.
const ADOPTED: usize = 16 << 10;

impl Data {
    /// Reads the values that a launch needs on the processor `to`.
    pub fn read_transfer(&self, effects: &Effects, transfer: &Transfer, to: ProcessorId) -> Result<Buffer, Error> {
        let key = transfer.source();
        let instances = self.instances.borrow();
        let bytes = match instances.get(&key) {
            Some(KeptInstance::Owned(instance, _)) => {
                let bytes = transfer.rect.volume() * instance.field().size;
                let is_near =
                    |memory: &&dyn SharedMemory| bytes >= ADOPTED && !effects.same_node(to) && memory.reaches(to);
                match effects.wire.shared_memory().filter(is_near).and_then(|memory| memory.buffer(bytes)) {
                    Some(mut buffer) => instance.read_into(transfer.rect, buffer.as_bytes_mut()).map(|()| buffer),
                    None => instance.read_bytes(transfer.rect),
                }
            }
            Some(KeptInstance::Shared(shared)) => shared.read_bytes(transfer.rect),
            // The column was named by a launch but never written. Values start as zero.
            None => {
                drop(instances);
                let size = effects.objects.field(transfer.tree, transfer.field)?.size;
                return Ok(Buffer::zeroed(transfer.rect.volume() * size));
            }
        };
        drop(instances);
        let bytes = bytes.map_err(|e| region_error(effects, &key, e))?;
        effects.counters.moved_bytes.add(bytes.len() as u64);
        Ok(bytes)
    }

    /// Writes the values that a launch of this processor was sent. Where they are many and are all of an instance, their memory is the
    /// instance's from now on.
    pub fn write_transfer(
        &self,
        effects: &Effects,
        launch: LaunchKey,
        transfer: &Transfer,
        bytes: Buffer,
    ) -> Result<(), Error> {
        let key = transfer.target();
        let field = effects.objects.field(transfer.tree, transfer.field)?;
        self.instances.borrow_mut().used_by(&key, launch);
        if let Some(KeptInstance::Shared(shared)) = self.instances.borrow().get(&key) {
            return shared.write_bytes(transfer.rect, bytes.as_bytes()).map_err(|e| region_error(effects, &key, e));
        }
        if transfer.rect == key.rect && bytes.len() >= ADOPTED {
            let memory = match self.choose_instance(effects, key, field, launch)? {
                Choice::There(instance) => instance.memory(),
                Choice::New(memory) => memory,
            };
            let adopted = Instance::from_buffer(key.rect, field, memory, bytes);
            let adopted = Rc::new(adopted.map_err(|e| region_error(effects, &key, e))?);
            self.keep(effects, &key, KeptInstance::Owned(adopted, launch), launch);
            return Ok(());
        }
        let instance = self.owned_instance(effects, key, field, launch)?;
        instance.write_bytes(transfer.rect, bytes.as_bytes()).map_err(|e| region_error(effects, &key, e))
    }
}
