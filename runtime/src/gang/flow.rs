//! Plans of leaf tasks that the top-level task launches: where their data comes from.

use super::Planner;
use super::plan::moved;
use crate::Error;
use crate::effects::Effects;
use crate::ids::{ColumnKey, NodeId, ProcessorId};
use crate::message::Move;
use maniple_regions::Privilege;
use std::sync::Arc;

/// The use of one field of a region by a leaf task of a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskUse {
    pub key: ColumnKey,
    pub privilege: Privilege,
}

impl Planner {
    /// The processor that has the data of a task, by the first region that it writes, or else by its first region: where the
    /// node's home is. Data that nobody has is dealt to the nodes block-cyclically.
    pub fn home_of_task(&self, effects: &Effects, uses: &[TaskUse]) -> ProcessorId {
        let copies = effects.copies();
        let Some(first) = uses.iter().find(|u| u.privilege.writes()).or(uses.first()) else {
            return copies.first_of(NodeId(0));
        };
        let node = match self.versions.borrow().holder(&first.key) {
            Some(holder) => copies.node_of(holder),
            None => dealt(&first.key, copies.nodes()),
        };
        copies.first_of(node)
    }

    /// The moves of data for a task on a processor. Updates the launcher's knowledge of its regions.
    ///
    /// # Errors
    /// An illegal answer of the mapper.
    pub fn plan_task(&self, effects: &Effects, uses: &[TaskUse], at: ProcessorId) -> Result<Vec<Arc<Move>>, Error> {
        let mut versions = self.versions.borrow_mut();
        let mut refused = None;
        let mut moves: Vec<Arc<Move>> = Vec::new();
        for TaskUse { key, .. } in uses.iter().filter(|u| u.privilege != Privilege::WriteDiscard) {
            let select = |rect, holders: &[ProcessorId]| {
                let selected = self.select_source(effects, key.region(rect), key.field, at, holders);
                selected.unwrap_or_else(|e| {
                    refused.get_or_insert(e);
                    holders[0]
                })
            };
            versions.read(key, key.rect, at, select, |source, transfer| {
                moves.push(moved(source, at, vec![transfer]));
            });
        }
        // The launch is refused, so the knowledge of regions stays as it was.
        if let Some(e) = refused {
            return Err(e);
        }
        for TaskUse { key, privilege } in uses {
            match privilege.writes() {
                true => versions.write(key, key.rect, at),
                false => versions.hold(key, key.rect, at),
            }
        }
        Ok(moves)
    }
}

/// The node of data that nobody has. The nodes are taken as a grid that is as square as can be, and the region as a tile of its
/// tree among others of its size.
fn dealt(key: &ColumnKey, nodes: u32) -> NodeId {
    let rows = (1..=nodes)
        .take_while(|rows| rows * rows <= nodes)
        .filter(|rows| nodes.is_multiple_of(*rows))
        .last()
        .unwrap_or(1);
    let columns = nodes / rows;
    let rect = &key.rect;
    let place = |d: usize| rect.lo(d).div_euclid((rect.extent(d) as i64).max(1));
    let (row, column) = match rect.dim() {
        1 => (place(0).div_euclid(i64::from(columns)), place(0)),
        _ => (place(0), place(1)),
    };
    NodeId((row.rem_euclid(i64::from(rows)) * i64::from(columns) + column.rem_euclid(i64::from(columns))) as u32)
}
