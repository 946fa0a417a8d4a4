//! Collective schedules as data, their proof, and the engine that runs them as subtasks.
