//! Data that a launch copies between instances of different processors before its shards start.

use super::instances::KeptInstance;
use super::{Data, memory, region_error};
use crate::Error;
use crate::effects::Effects;
use crate::ids::{ColumnKey, LaunchKey};
use crate::message::Transfer;
use maniple_regions::{Buffer, Instance, Rect};

impl Data {
    /// Reads the values that another processor's launch needs.
    pub fn read_transfer(&self, effects: &Effects, transfer: &Transfer) -> Result<Buffer, Error> {
        let key = ColumnKey { tree: transfer.tree, field: transfer.field, rect: transfer.from };
        let instances = self.instances.borrow();
        let bytes = match instances.get(&key) {
            Some(KeptInstance::Owned(instance, _)) => instance.read_bytes(transfer.rect),
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

    /// Writes the values that a launch of this processor was sent, or parts of them.
    pub fn write_transfer(
        &self,
        effects: &Effects,
        launch: LaunchKey,
        transfer: &Transfer,
        bytes: &Buffer,
        parts: Option<Vec<Rect>>,
    ) -> Result<(), Error> {
        let Some(parts) = parts else { return self.write_part(effects, launch, transfer, bytes) };
        let key = ColumnKey { tree: transfer.tree, field: transfer.field, rect: transfer.rect };
        let field = effects.objects.field(transfer.tree, transfer.field)?;
        let failed = |e| region_error(effects, &key, e);
        let all = Instance::new(transfer.rect, field, memory(effects)).map_err(failed)?;
        all.write_bytes(transfer.rect, bytes.as_bytes()).map_err(failed)?;
        for rect in parts {
            let bytes = all.read_bytes(rect).map_err(failed)?;
            self.write_part(effects, launch, &Transfer { rect, ..transfer.clone() }, &bytes)?;
        }
        Ok(())
    }

    fn write_part(
        &self,
        effects: &Effects,
        launch: LaunchKey,
        transfer: &Transfer,
        bytes: &Buffer,
    ) -> Result<(), Error> {
        let key = ColumnKey { tree: transfer.tree, field: transfer.field, rect: transfer.into };
        let field = effects.objects.field(transfer.tree, transfer.field)?;
        self.instances.borrow_mut().used_by(&key, launch);
        if let Some(KeptInstance::Shared(shared)) = self.instances.borrow().get(&key) {
            return shared.write_bytes(transfer.rect, bytes.as_bytes()).map_err(|e| region_error(effects, &key, e));
        }
        let instance = self.owned_instance(effects, key, field, launch)?;
        instance.write_bytes(transfer.rect, bytes.as_bytes()).map_err(|e| region_error(effects, &key, e))
    }
}
