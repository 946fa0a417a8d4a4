//! Barriers in the report of a deadlock.

use super::{Barriers, Keeper};
use crate::diagnose::deadlock::{Node, On, PhaseReport, ReportPart, Wait, list, so_far, values_so_far, waits_for};
use crate::effects::{Effects, Waiting};
use crate::ids::{EMPTY, ObjectId};
use crate::object::{Defined, Edge, EdgeTable, PhaseSpec};

/// Says whether a waiter for a generation gets or puts its value; see [`Barriers::report_edges`].
type MovesValue<'a> = &'a dyn Fn(&Waiting, (ObjectId, u32, u64)) -> bool;

impl Barriers {
    /// Adds the waiters for edges, and who they wait for. `node_of` turns a waiter into a node of the graph. `moves_value` says
    /// whether a waiter gets or puts the value of a generation: then its program knows values, and no barriers.
    pub fn report_edges(
        &self,
        effects: &Effects,
        (object, edges): (ObjectId, &EdgeTable),
        node_of: &dyn Fn(&Waiting) -> Node,
        moves_value: MovesValue<'_>,
        part: &mut ReportPart,
    ) {
        let banks = self.banks.borrow();
        let Some(Keeper::Edges(bank)) = banks.get(object) else { return };
        for (cell, generation, arrivals, waiting) in bank.waiting() {
            let early = list(arrivals.early());
            let early = if early.is_empty() { early } else { format!(", arrived early: {early}") };
            let (edge, consumes) = (edges.edge_of(effects.id, cell), cell & EMPTY == 0);
            let (what, lacks) = match edge.filter(|_| moves_value(waiting, (object, cell, generation))) {
                Some(edge) => value_words(edges, edge, consumes, generation, arrivals.next()),
                None => {
                    let name = edges.cell_name(effects.id, cell);
                    let (what, complete) =
                        (format!("generation {generation} of {name}"), so_far(arrivals.next(), "complete"));
                    (format!("waits for {what}; {complete}"), format!("arrives for {what}"))
                }
            };
            let by = edge.map(|edge| (edges.gang.id, if consumes { edge.from } else { edge.to }));
            let arrival = (effects.id, object, cell, generation);
            let on = by.map_or(On::Nodes(Vec::new()), |by| On::Arrival { arrival, by, lacks });
            part.waits.push((node_of(waiting), Wait { what: format!(" {what}{early}"), on }));
        }
    }

    /// Adds a phase barrier: its waiters, and the arrivals of its arrivers.
    pub fn report_phase(
        &self,
        (object, spec): (ObjectId, &PhaseSpec),
        node_of: &dyn Fn(&Waiting) -> Node,
        part: &mut ReportPart,
    ) {
        self.phases.with(object, |phase| {
            let over = so_far(phase.released(), "over");
            for (generation, waiting) in phase.waiting() {
                let what = format!("generation {generation} of phase barrier `{}`; {over}", spec.name);
                let on = Node::Phase { object, generation };
                part.waits.push((node_of(waiting), waits_for(what, vec![on])));
            }
            let report = PhaseReport {
                name: spec.name.clone(),
                gang: spec.gang.id,
                awaited: phase.waiting().map(|(generation, _)| generation).collect(),
                arrived: phase.arrived().map(|(a, n)| (spec.arrivers[a as usize], n)).collect(),
            };
            part.phases.push((object, report));
        });
    }
}

/// The wait of a task that gets or puts a value, and what is missing.
fn value_words(edges: &EdgeTable, edge: Edge, gets: bool, value: u64, complete: u64) -> (String, String) {
    let (name, depth) = (&edges.name, u64::from(edges.depth));
    if gets {
        let what = format!("waits to get value {value} of `{name}`, {edge}; {}", values_so_far(complete, "put"));
        return (what, format!("puts value {value} of `{name}`, {edge}"));
    }
    // The first `depth` generations of `empty` are complete from the start.
    let got = values_so_far(complete.saturating_sub(depth), "got");
    let what = format!("waits to put value {value} of `{name}`, {edge}; the edge holds at most {depth}, and {got}");
    (what, format!("gets value {} of `{name}`, {edge}", value.saturating_sub(depth)))
}
