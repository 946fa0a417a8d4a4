//! Counts of the things that were explored.

use crate::joint::{Sizes, Taking};
use crate::judge::Right;
use crate::program::{On, Program, Step};

macro_rules! counts {
    ($($name:ident),* $(,)?) => {
        /// Sums over programs and their runs.
        #[derive(Debug, Default)]
        pub struct Counts {
            $($name: u64,)*
        }

        impl Counts {
            /// All counts, each with its name.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counts! {
    programs, in_virtual_time, with_races_checked, gang_launches, by_parents, destructions, shards,
    loose_launches, flow_launches, leaf_steps, index_launches, exchanges, phase_arrivals, phase_waits, shared_writes, phase_barriers,
    allreduces, reduces, collective_barriers, broadcasts, gathers, allgathers, scatters, reduce_scatters, all_to_alls, scans, exscans,
    split_calls, calls_in_parts, contributions_in_blocks, calls_of_any_sizes, plans, mapper_swaps, deadlines, waits_in_vain,
    bombs, shard_failures, top_level_failures, slow_pairs, pauses, losses_planned, wild_mappers,
    leaf_tasks, messages, arrivals, subtasks, mapper_calls,
    values, values_failed_as_they_must, time_outs, processors_lost, refused_mappers,
    deadlocks, refused_arrivals,
}

impl Counts {
    /// The number of calls of collectives of this name.
    fn calls_of(&mut self, name: &str) -> &mut u64 {
        match name {
            "allreduce" => &mut self.allreduces,
            "reduce" => &mut self.reduces,
            "barrier" => &mut self.collective_barriers,
            "broadcast" => &mut self.broadcasts,
            "gather" => &mut self.gathers,
            "allgather" => &mut self.allgathers,
            "scatter" => &mut self.scatters,
            "reduce-scatter" => &mut self.reduce_scatters,
            "all-to-all" => &mut self.all_to_alls,
            "scan" => &mut self.scans,
            _ => &mut self.exscans,
        }
    }

    /// Adds a program whose run was right.
    pub fn add(&mut self, program: &Program, right: &Right) {
        self.programs += 1;
        self.in_virtual_time += u64::from(matches!(program.on, On::Virtual { .. }));
        self.with_races_checked += u64::from(program.checks_races);
        for stage in &program.stages {
            self.gang_launches += u64::from(stage.launches);
            self.by_parents += u64::from(stage.by_parent);
            self.destructions += u64::from(stage.destroys);
            self.shards += u64::from(stage.shards);
            self.loose_launches += stage.loose.len() as u64;
            self.flow_launches += stage.loose.iter().filter(|loose| loose.flow && !stage.by_parent).count() as u64;
            self.plans += u64::from(stage.planned && !stage.joints.is_empty());
            for step in &stage.steps {
                let Some(joint) = step.joint().map(|which| &stage.joints[which]) else { continue };
                let split = matches!(step, Step::Receive { .. });
                let (given, taken) = step.parts();
                if let Some(given) = given {
                    *self.calls_of(joint.name()) += 1;
                    let shards = joint.contributors.iter().filter(|&&s| joint.gives_blocks(s, given));
                    self.contributions_in_blocks += shards.count() as u64;
                    self.calls_of_any_sizes += u64::from(joint.sizes == Sizes::Any);
                }
                if let Some(taken) = taken {
                    let in_parts = |&&s: &&u32| joint.taking(s, &taken, split) != Taking::Whole;
                    self.calls_in_parts += joint.receivers.iter().filter(in_parts).count() as u64;
                }
            }
        }
        for step in program.steps() {
            let kind = match step {
                Step::Leaf { .. } => &mut self.leaf_steps,
                Step::Index { .. } => &mut self.index_launches,
                Step::Exchange { .. } => &mut self.exchanges,
                Step::Sum { .. } | Step::Barrier { .. } => &mut self.phase_barriers,
                Step::Board { .. } => &mut self.shared_writes,
                Step::Contribute { .. } => &mut self.split_calls,
                Step::Swap { .. } => &mut self.mapper_swaps,
                Step::Crash { .. } => &mut self.shard_failures,
                Step::InVain { .. } => &mut self.waits_in_vain,
                Step::Arrive { .. } => &mut self.phase_arrivals,
                Step::Wait { .. } => &mut self.phase_waits,
                Step::Await { .. }
                | Step::Yield { .. }
                | Step::Forget { .. }
                | Step::Overrun { .. }
                | Step::Call { .. }
                | Step::Receive { .. } => continue,
            };
            *kind += 1;
        }
        let limited = |s: &&Step| match s {
            Step::Wait { own, limit, .. } => *own && limit.is_some(),
            Step::Await { limit, .. } | Step::Sum { limit } => limit.is_some(),
            Step::Exchange { waits, limit, .. } | Step::Barrier { waits, limit, .. } => *waits && limit.is_some(),
            _ => false,
        };
        self.deadlines += program.steps().filter(limited).count() as u64;
        let bombs = program.steps().filter(|s| s.bomb().is_some() && !matches!(s, Step::Crash { .. }));
        self.bombs += bombs.count() as u64;
        self.slow_pairs += program.faults.slow.len() as u64;
        self.pauses += program.faults.pauses.len() as u64;
        self.losses_planned += program.faults.losses.len() as u64;
        self.wild_mappers += u64::from(program.is_wild());
        if let Some(stats) = &right.stats {
            self.leaf_tasks += stats.leaf_tasks;
            self.messages += stats.messages;
            self.arrivals += stats.arrivals;
            self.subtasks += stats.chain_subtasks;
            self.mapper_calls += stats.mapper_calls;
        }
        self.values += right.values;
        self.values_failed_as_they_must += right.failed;
        self.time_outs += right.time_outs;
        self.top_level_failures += u64::from(right.top_failed);
        self.processors_lost += u64::from(right.lost);
        self.refused_mappers += u64::from(right.mapper);
        self.deadlocks += u64::from(right.stuck);
        self.refused_arrivals += u64::from(right.refused);
    }
}
