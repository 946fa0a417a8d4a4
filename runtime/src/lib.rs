//! Shard tasks, subtasks, launches, processors and the wires that join them.
