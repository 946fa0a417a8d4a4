//! What the environment says of the launcher that has started this process.

use std::sync::OnceLock;

/// Several processes that a launcher has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    /// The name of the launcher, or of its protocol.
    pub by: &'static str,
    /// This process's number.
    pub rank: u32,
    /// How many there are, more than 1.
    pub size: u32,
}

/// Each launcher with its variables for the number of processes and that of this process.
const LAUNCHERS: [(&str, &str, &str); 3] = [
    ("Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("MPICH", "PMI_SIZE", "PMI_RANK"),
    // Not SLURM_NTASKS, which a batch script has too.
    ("SLURM", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
];

/// The launcher of this process, if it has started several.
pub fn launched() -> Option<&'static Launched> {
    static FOUND: OnceLock<Option<Launched>> = OnceLock::new();
    FOUND.get_or_init(|| find(|name| std::env::var(name).ok())).as_ref()
}

fn find(variable: impl Fn(&str) -> Option<String>) -> Option<Launched> {
    let number = |name| variable(name)?.parse::<u32>().ok();
    LAUNCHERS.iter().find_map(|(by, size, rank)| {
        let (size, rank) = (number(size)?, number(rank)?);
        (size > 1).then_some(Launched { by, rank, size })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_launcher_and_only_one_of_several_processes() {
        let of = |set: &'static [(&str, &str)]| {
            find(move |name| set.iter().find(|(of, _)| *of == name).map(|(_, value)| value.to_string()))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("OMPI_COMM_WORLD_SIZE", "1"), ("OMPI_COMM_WORLD_RANK", "0")]), None);
        assert_eq!(of(&[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")]), None);
        assert_eq!(of(&[("PMI_SIZE", "4"), ("PMI_RANK", "3")]), Some(Launched { by: "MPICH", rank: 3, size: 4 }));
        let both = of(&[("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_PROCID", "1"), ("PMI_SIZE", "x"), ("PMI_RANK", "0")]);
        assert_eq!(both, Some(Launched { by: "SLURM", rank: 1, size: 2 }));
    }
}
