//! The result of a gang of shards, put together.

use maniple::mapper::NodeId;
use maniple::prelude::*;
use maniple::regions::Element;
use std::sync::{Arc, Mutex, PoisonError};

/// Puts the values of the shards' blocks into a list on the first node. `place` gives for a shard the places in the list of the values
/// of its block, in row-major order. Collective; may wait.
pub async fn gather<T: Element + Default, const D: usize, P>(
    top: &Top,
    (blocks, field): (&[Region], Field<T>),
    (into, values): (&Arc<Mutex<Vec<T>>>, usize),
    place: impl Fn(u32) -> P,
) -> Result<(), Error>
where
    P: Fn(usize) -> usize + Send + Sync + 'static,
{
    for (shard, block) in (0u32..).zip(blocks) {
        let (into, place) = (into.clone(), place(shard));
        let put = move |block: Read<T, D>| {
            let mut all = into.lock().unwrap_or_else(PoisonError::into_inner);
            all.resize(values, T::default());
            for (at, value) in block.rows().flatten().enumerate() {
                all[place(at)] = *value;
            }
        };
        let block = top.region(*block)?;
        top.launch(put, (block.read(field),)).on(NodeId(0)).named("gather").go()?.detach();
    }
    top.done().await
}
