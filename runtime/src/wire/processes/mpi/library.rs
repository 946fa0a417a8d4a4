//! Finds and loads the MPI library of the launcher that has started this process.

use super::super::launcher::{self, MPICH, OPEN_MPI, launched};
use super::abi::Abi;
use super::functions::Mpi;
use crate::Error;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

/// Names the library, in place of the launcher's.
pub const VARIABLE: &str = "MANIPLE_MPI";

/// The names of libraries, and the launcher that they belong to if the name says so. The last one may be anybody's.
const NAMES: [(&str, Option<&str>); 6] = [
    ("libmpi_abi.so.1", None),
    ("libmpi.so.40", Some(OPEN_MPI)),
    ("libmpi.so.80", Some(OPEN_MPI)),
    ("libmpi.so.12", Some(MPICH)),
    // Debian's.
    ("libmpich.so.12", Some(MPICH)),
    ("libmpi.so", None),
];

/// How the names of MPICH's relatives begin that have a compiler in their name, such as `libmpi_gnu_123.so.12`.
const OF_COMPILERS: [&str; 4] = ["libmpi_gnu", "libmpi_cray", "libmpi_intel", "libmpi_amd"];

/// How the names of launchers begin: `mpirun`, `mpiexec.hydra`, `orterun`, `orted`, `prterun`, `hydra_pmi_proxy` and others.
const LAUNCHERS: [&str; 5] = ["mpirun", "mpiexec", "orte", "prte", "hydra_"];

/// The most bytes of a library's version.
const LONGEST_VERSION: usize = 8192;

/// Has `dlopen` find what is loaded already, and load nothing.
const RTLD_NOLOAD: c_int = 4;

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
        let found = Candidate::open(Path::new(&path), RTLD_NOW).and_then(Candidate::load);
        return found.map_err(|why| unusable(format!("{VARIABLE}={}: {why}", path.display())));
    }
    let launcher = launcher::family();
    let mut refused = Vec::new();
    // Those of the launcher, as far as is known, and then any: launchers of some systems start programs of all.
    let mut rest = Vec::new();
    for (path, flags, family) in candidates() {
        if launcher.is_some() && family.is_some() && launcher != family {
            rest.push((path, flags));
            continue;
        }
        match Candidate::open(&path, flags) {
            Ok(candidate) if launcher.is_some_and(|launcher| launcher != candidate.family()) => {
                rest.push((path, flags))
            }
            found => match found.and_then(Candidate::load) {
                Ok(mpi) => return Ok(mpi),
                Err(why) => refused.extend(worth_saying(&path, flags, why)),
            },
        }
    }
    for (path, flags) in rest {
        match Candidate::open(&path, flags).and_then(Candidate::load) {
            Ok(mpi) => return Ok(mpi),
            Err(why) => refused.extend(worth_saying(&path, flags, why)),
        }
    }
    refused.dedup();
    let none = || {
        let install = "none; install one (on Debian, as root: apt-get install openmpi-bin)";
        format!("{install}, or name its file with {VARIABLE}")
    };
    let came =
        if refused.is_empty() { none() } else { format!("{}; or name its file with {VARIABLE}", refused.join("; ")) };
    Err(unusable(launched().map_or(came.clone(), |job| job.explained(came))))
}

/// Why a library can't be used, unless the loader has not even found one of this name, or is asked for it once more.
fn worth_saying(path: &Path, flags: c_int, why: String) -> Option<String> {
    let missing = why.starts_with(&*path.to_string_lossy()) && why.contains("No such file");
    (!missing && flags & RTLD_NOLOAD == 0).then(|| format!("{}: {why}", path.display()))
}

/// Where the library may be, with the launcher that it belongs to if that is known: loaded already, beside the launchers among
/// this process's ancestors, in the folders of `LD_LIBRARY_PATH`, and wherever else the loader looks.
fn candidates() -> impl Iterator<Item = (PathBuf, c_int, Option<&'static str>)> {
    let bare = |flags| NAMES.map(|(name, family)| (PathBuf::from(name), flags, family));
    let search = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let listed: Vec<PathBuf> = std::env::split_paths(&search).filter(|folder| folder.is_absolute()).collect();
    let folders = beside_launchers().chain(listed);
    let loaded = bare(RTLD_NOW | RTLD_NOLOAD).into_iter();
    loaded.chain(folders.flat_map(|folder| within(&folder))).chain(bare(RTLD_NOW))
}

/// The libraries in a folder.
fn within(folder: &Path) -> Vec<(PathBuf, c_int, Option<&'static str>)> {
    let mut found: Vec<_> = NAMES.iter().map(|(name, family)| (folder.join(name), RTLD_NOW, *family)).collect();
    let names = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let of_compilers =
        names.filter(|name| name.ends_with(".so.12") && OF_COMPILERS.iter().any(|start| name.starts_with(start)));
    found.extend(of_compilers.map(|name| (folder.join(name), RTLD_NOW, Some(MPICH))));
    found.retain(|(path, ..)| path.exists());
    found
}

/// The folders of libraries beside the launchers among this process's ancestors.
fn beside_launchers() -> impl Iterator<Item = PathBuf> {
    let prefixes = ancestors().filter_map(|program| {
        let name = program.file_name()?.to_str()?;
        LAUNCHERS.iter().any(|start| name.starts_with(start)).then_some(())?;
        Some(program.parent()?.parent()?.to_owned())
    });
    let multiarch = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    prefixes.flat_map(move |prefix| ["lib", "lib64", &multiarch].map(|folder| prefix.join(folder)))
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

/// A library that has been opened, but whose functions no other one sees yet.
struct Candidate {
    library: Library,
    path: PathBuf,
    /// All that the library says of its version.
    text: String,
}

impl Candidate {
    fn open(path: &Path, flags: c_int) -> Result<Self, String> {
        // SAFETY: The constructors of a library of MPI do nothing that disturbs this process.
        let library =
            unsafe { Library::open(Some(path), flags | RTLD_LOCAL) }.map_err(|e| match flags & RTLD_NOLOAD {
                0 => e.to_string(),
                _ => "not loaded".to_owned(),
            })?;
        let mut text = [0u8; LONGEST_VERSION + 1];
        let mut len: c_int = 0;
        // SAFETY: The standard gives this function these parameters, and allows the call at any time.
        unsafe {
            let version: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int =
                *library.get(b"MPI_Get_library_version\0").map_err(|_| "not a library of MPI 3 or later".to_owned())?;
            version(text.as_mut_ptr().cast(), &mut len);
        }
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { library, path: path.to_owned(), text })
    }

    /// The launcher that it belongs to.
    fn family(&self) -> &'static str {
        if self.text.starts_with(OPEN_MPI) { OPEN_MPI } else { MPICH }
    }

    /// Its name and number.
    fn version(&self) -> String {
        // Open MPI goes on with who built it, MPICH with tables.
        let name = self.text.split([',', '\n']).next().unwrap_or_default().replace("Version:", "");
        name.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn load(self) -> Result<Mpi, String> {
        let version = self.version();
        let abi = self.abi().map_err(|why| format!("{version} {why}"))?;
        // Parts that Open MPI loads later need its own functions.
        // SAFETY: It is loaded already.
        let library = unsafe { Library::open(Some(&self.path), RTLD_NOW | RTLD_GLOBAL) }.map_err(|e| e.to_string())?;
        let path = self.path.display().to_string();
        Mpi::new(library, abi, version.clone(), path).map_err(|name| format!("{version} has no {name}"))
    }

    /// The family of its binary interface.
    fn abi(&self) -> Result<Abi, String> {
        let (mut major, mut minor): (c_int, c_int) = (-1, -1);
        // SAFETY: The standard gives this function these parameters, and allows the call at any time.
        unsafe {
            type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
            if let Ok(abi_version) = self.library.get::<Version>(b"MPI_Abi_get_version\0") {
                abi_version(&mut major, &mut minor);
            }
        }
        let object = |name: &str| {
            // SAFETY: Only the object's address is used.
            unsafe { self.library.get::<*mut c_void>(name.as_bytes()) }.map(|object| object.into_raw())
        };
        let named_for_it = self.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libmpi_abi"));
        match major {
            1 => Ok(Abi::STANDARD),
            // Libraries with an interface of their own give -1.
            major if major >= 0 || named_for_it => {
                Err(format!("has version {major} of MPI's binary interface, and this program knows version 1"))
            }
            _ if object("ompi_mpi_comm_world").is_ok() => Abi::open_mpi(object).map_err(|e| e.to_string()),
            _ if ["MPICH", "Intel", "MVAPICH"].iter().any(|name| self.text.contains(name)) => Ok(Abi::MPICH),
            _ => Err("is not known; libraries with the binary interface of MPI 5 (libmpi_abi) are".into()),
        }
    }
}
