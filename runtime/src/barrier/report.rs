//! Barriers in the report of a deadlock.

use super::Barriers;
use crate::diagnose::deadlock::{Node, On, PhaseReport, ReportPart, Wait, list, so_far, waits_for};
use crate::effects::{Effects, Known, Waiting};
use crate::ids::EMPTY;
use crate::object::{EdgeTable, PhaseSpec};

impl Barriers {
    /// Adds the waiters for edges, and who they wait for. `node_of` turns a waiter into a node of the graph.
    pub fn report_edges(
        &self,
        effects: &Effects,
        (known, edges): (&Known, &EdgeTable),
        node_of: &dyn Fn(&Waiting) -> Node,
        part: &mut ReportPart,
    ) {
        let banks = self.banks.borrow();
        let Some(bank) = banks.get(known.id) else { return };
        for (cell, generation, arrivals, waiting) in bank.waiting() {
            let (name, early) = (known.object.cell_name(effects.id, cell), list(arrivals.early()));
            let complete = so_far(arrivals.next(), "complete");
            let early = if early.is_empty() { early } else { format!(", arrived early: {early}") };
            let what = format!(" waits for generation {generation} of {name}; {complete}{early}");
            let by = edges
                .edge_of(effects.id, cell)
                .map(|edge| (edges.gang.id, if cell & EMPTY == 0 { edge.from } else { edge.to }));
            let arrival = (effects.id, known.id, cell, generation);
            let on = by.map_or(On::Nodes(Vec::new()), |by| On::Arrival { arrival, by });
            part.waits.push((node_of(waiting), Wait { what, on }));
        }
    }

    /// Adds a phase barrier: its waiters, and the arrivals of its arrivers.
    pub fn report_phase(
        &self,
        (known, spec): (&Known, &PhaseSpec),
        node_of: &dyn Fn(&Waiting) -> Node,
        part: &mut ReportPart,
    ) {
        self.phases.with(known.id, |phase| {
            let over = so_far(phase.released(), "over");
            for (generation, waiting) in phase.waiting() {
                let what = format!("generation {generation} of phase barrier `{}`; {over}", spec.name);
                let on = Node::Phase { object: known.id, generation };
                part.waits.push((node_of(waiting), waits_for(what, vec![on])));
            }
            let report = PhaseReport {
                name: spec.name.clone(),
                gang: spec.gang.id,
                awaited: phase.waiting().map(|(generation, _)| generation).collect(),
                arrived: phase.arrived().map(|(a, n)| (spec.arrivers[a as usize], n)).collect(),
            };
            part.phases.push((known.id, report));
        });
    }
}
