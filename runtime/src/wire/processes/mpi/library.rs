//! Finds and loads the MPI library of the launcher that has started this process.

use super::super::launcher::{self, launched};
use super::abi::Abi;
use super::calls::Mpi;
use crate::Error;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

/// Names the library, in place of the launcher's.
pub const VARIABLE: &str = "MANIPLE_MPI";

/// The names of libraries: those with the standard's interface, of Open MPI, and of MPICH and its relatives, the last
/// three of Debian and of Cray.
const NAMES: [&str; 9] = [
    "libmpi_abi.so.1",
    "libmpi_abi.so.0",
    "libmpi.so.40",
    "libmpi.so.80",
    "libmpi.so.12",
    "libmpi.so",
    "libmpich.so.12",
    "libmpi_cray.so.12",
    "libmpi_gnu.so.12",
];

/// What programs of launchers have in their names, as `mpirun`, `orted`, `prterun`, `hydra_pmi_proxy` and `slurmstepd` do.
const LAUNCHERS: [&str; 5] = ["mpi", "orte", "prte", "hydra", "slurm"];

/// The most bytes of a library's version.
const LONGEST_VERSION: usize = 8192;

/// Loads the library that [`VARIABLE`] names, or that of the launcher.
///
/// # Errors
///
/// There is none, or it can't be used.
pub fn load() -> Result<Mpi, Error> {
    let unusable = |came: String| {
        Error::misuse("a run on MPI", "an MPI library: Open MPI, MPICH or a relative of it, or one for MPI 5", came)
    };
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        let found = Candidate::open(Path::new(&path)).and_then(Candidate::load);
        return found.map_err(|why| unusable(format!("{VARIABLE}={}: {why}", path.display())));
    }
    let mut tried = Vec::new();
    // One that belongs to the launcher, as far as is known, and then any: launchers of some systems start all.
    for only_of_launcher in [true, false] {
        for path in paths() {
            match Candidate::open(&path) {
                Ok(candidate) if only_of_launcher && !candidate.is_of_launcher() => {}
                Ok(candidate) => return candidate.load().map_err(|why| unusable(format!("{}: {why}", path.display()))),
                // Names without a folder are looked up by the loader, which says that it has found none.
                Err(why) if path.is_absolute() && !tried.contains(&why) => tried.push(why),
                Err(_) => {}
            }
        }
    }
    let mut came =
        "none: install one (on Debian, as root: apt-get install openmpi-bin), or name its file with ".to_owned();
    came += VARIABLE;
    tried.iter().for_each(|why| came += &format!("; {why}"));
    Err(unusable(launched().map_or(came.clone(), |job| job.explained(came))))
}

/// Where the library may be: beside the launchers among this process's ancestors, and where the loader finds it.
fn paths() -> impl Iterator<Item = PathBuf> {
    let folders = ancestors().filter_map(|program| {
        let name = program.file_name()?.to_str()?;
        LAUNCHERS.iter().any(|part| name.contains(part)).then_some(())?;
        Some(program.parent()?.parent()?.to_owned())
    });
    let multiarch = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    let within = move |prefix: PathBuf| ["lib", "lib64", &multiarch].map(|folder| prefix.join(folder));
    let beside = folders.flat_map(within).flat_map(|folder| NAMES.map(|name| folder.join(name)));
    beside.filter(|path| path.exists()).chain(NAMES.map(PathBuf::from))
}

/// The programs of the parent of this process, of its parent, and so on, as far as they may be seen.
fn ancestors() -> impl Iterator<Item = PathBuf> {
    let parent_of = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The parent is the second field after the name, which is in parentheses and may contain some.
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok().filter(|parent| *parent > 0)
    };
    let pids = std::iter::successors(parent_of(&std::process::id()), parent_of);
    pids.filter_map(|pid| std::fs::read_link(format!("/proc/{pid}/exe")).ok())
}

/// A library that has been opened, but is not visible to others yet.
struct Candidate {
    library: Library,
    path: PathBuf,
    version: String,
}

impl Candidate {
    fn open(path: &Path) -> Result<Self, String> {
        // SAFETY: The constructors of a library of MPI do nothing that disturbs this process.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(|e| e.to_string())?;
        let mut text = [0u8; LONGEST_VERSION + 1];
        let mut len: c_int = 0;
        // SAFETY: The standard gives this function these parameters, and allows the call at any time.
        unsafe {
            let version: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int =
                *library.get(b"MPI_Get_library_version\0").map_err(|_| "not a library of MPI 3 or later".to_owned())?;
            version(text.as_mut_ptr().cast(), &mut len);
        }
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy();
        // Open MPI goes on with who built it, MPICH with tables.
        let name = text.split([',', '\n']).next().unwrap_or_default();
        let version = name.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Self { library, path: path.to_owned(), version })
    }

    /// Whether this is a library that the launcher has started processes for.
    fn is_of_launcher(&self) -> bool {
        launched().is_none_or(|job| match job.by {
            launcher::OPEN_MPI => self.is_open_mpi(),
            launcher::MPICH => !self.is_open_mpi(),
            _ => true,
        })
    }

    fn is_open_mpi(&self) -> bool {
        self.version.starts_with("Open MPI")
    }

    fn load(self) -> Result<Mpi, String> {
        let Self { library, path, version } = self;
        let abi = abi_of(&library, &version)?;
        // Parts that Open MPI loads later need its own functions.
        // SAFETY: It is loaded already.
        let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) }.map_err(|e| e.to_string())?;
        let path = path.display().to_string();
        Mpi::new(library, abi, version.clone(), path).map_err(|name| format!("{version} has no {name}"))
    }
}

/// The family of a library.
fn abi_of(library: &Library, version: &str) -> Result<Abi, String> {
    let (mut major, mut minor): (c_int, c_int) = (-1, -1);
    // SAFETY: The standard gives this function these parameters, and allows the call at any time.
    unsafe {
        type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
        if let Ok(abi_version) = library.get::<Version>(b"MPI_Abi_get_version\0") {
            abi_version(&mut major, &mut minor);
        }
    }
    // SAFETY: Only the object's address is used.
    let object = |name: &str| unsafe { library.get::<*mut c_void>(name.as_bytes()) }.map(|object| object.into_raw());
    match major {
        // Libraries with an interface of their own give -1 here.
        1 => Ok(Abi::STANDARD),
        2.. => Err(format!("{version} has version {major} of MPI's binary interface; this program knows version 1")),
        _ if object("ompi_mpi_comm_world").is_ok() => Abi::open_mpi(object).map_err(|e| e.to_string()),
        _ if ["MPICH", "Intel", "MVAPICH", "Cray"].iter().any(|name| version.contains(name)) => Ok(Abi::MPICH),
        _ => Err(format!("{version} is not known; libraries with MPI's own binary interface are (libmpi_abi)")),
    }
}
