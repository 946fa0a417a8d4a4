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
    /// The variables that say so, of all launchers.
    pub variables: String,
}

impl Launched {
    /// What is wrong with a run on these processes, with what they are known by, and the other way out.
    pub fn explained(&self, came: impl std::fmt::Display) -> String {
        let unset = "If no launcher has started this program, as in an interactive SLURM shell, unset these variables";
        format!("{came}. The launcher is known by {}. {unset}", self.variables)
    }
}

/// Each launcher with its variables for the number of processes and the number of this process.
const LAUNCHERS: [(&str, &str, &str); 3] = [
    (OPEN_MPI, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    (MPICH, "PMI_SIZE", "PMI_RANK"),
    // Not SLURM_NTASKS, which a batch script has too.
    (SLURM, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
];

pub const OPEN_MPI: &str = "Open MPI";
pub const MPICH: &str = "MPICH";
pub const SLURM: &str = "SLURM";

/// The launcher of this process, if it has started several.
pub fn launched() -> Option<&'static Launched> {
    static FOUND: OnceLock<Option<Launched>> = OnceLock::new();
    FOUND.get_or_init(|| find(|name| std::env::var(name).ok())).as_ref()
}

/// The launcher whose library this process needs, if only one comes into question: launchers of systems start programs of all.
pub fn family() -> Option<&'static str> {
    family_of(|name| std::env::var_os(name).is_some())
}

fn family_of(is_set: impl Fn(&str) -> bool) -> Option<&'static str> {
    let has_started = |launcher| LAUNCHERS.iter().any(|(by, size, _)| *by == launcher && is_set(size));
    let of_system = has_started(SLURM) || is_set("FLUX_JOB_SIZE") || is_set("PALS_RANKID");
    match has_started(OPEN_MPI) {
        true => Some(OPEN_MPI),
        false => (has_started(MPICH) && !of_system).then_some(MPICH),
    }
}

/// For the first process of a job of SLURM in which MPI may not find the others: says so. That is a job of an interactive
/// shell, or one started without a plug-in for MPI.
pub fn unfound() -> Option<String> {
    let job = launched().filter(|job| job.by == SLURM && job.rank == 0)?;
    let of_plugin = |name: &str| ["PMI", "PALS"].iter().any(|plugin| name.starts_with(plugin));
    let found = std::env::vars_os().any(|(name, _)| name.to_str().is_some_and(of_plugin));
    let unfound = || format!("SLURM has started {} processes without a plug-in for MPI (srun --mpi=...)", job.size);
    (!found).then(|| job.explained(unfound()))
}

fn find(variable: impl Fn(&str) -> Option<String>) -> Option<Launched> {
    let number = |name| variable(name)?.parse::<u32>().ok();
    let names = LAUNCHERS.iter().flat_map(|(_, size, rank)| [size, rank]);
    let set = names.filter_map(|name| Some(format!("{name}={}", variable(name)?)));
    let variables = set.collect::<Vec<_>>().join(" ");
    LAUNCHERS.iter().find_map(|(by, size, rank)| {
        let (size, rank) = (number(size)?, number(rank)?);
        (size > 1).then(|| Launched { by, rank, size, variables: variables.clone() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_that_of_the_launcher_unless_it_starts_programs_of_all() {
        let of = |set: &[&str]| family_of(|name| set.contains(&name));
        assert_eq!((of(&[]), of(&["PMI_SIZE"])), (None, Some(MPICH)));
        assert_eq!((of(&["PMI_SIZE", "FLUX_JOB_SIZE"]), of(&["PMI_SIZE", "SLURM_STEP_NUM_TASKS"])), (None, None));
        assert_eq!(of(&["OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"]), Some(OPEN_MPI));
    }

    #[test]
    fn finds_the_launcher_and_only_one_of_several_processes() {
        let of = |set: &'static [(&str, &str)]| {
            find(move |name| set.iter().find(|(of, _)| *of == name).map(|(_, value)| value.to_string()))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("OMPI_COMM_WORLD_SIZE", "1"), ("OMPI_COMM_WORLD_RANK", "0")]), None);
        assert_eq!(of(&[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")]), None);
        let variables = "PMI_SIZE=4 PMI_RANK=3".to_owned();
        let of_mpich = Launched { by: "MPICH", rank: 3, size: 4, variables };
        assert_eq!(of(&[("PMI_SIZE", "4"), ("PMI_RANK", "3")]), Some(of_mpich));
        let both = of(&[("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_PROCID", "1"), ("PMI_SIZE", "x"), ("PMI_RANK", "0")]);
        let variables = "PMI_SIZE=x PMI_RANK=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1".to_owned();
        assert_eq!(both, Some(Launched { by: "SLURM", rank: 1, size: 2, variables }));
    }
}
